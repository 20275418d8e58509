module dlpack

go 1.26
