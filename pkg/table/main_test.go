package main

import (
	"bytes"
	"os"
	"testing"
)

const command = "go run ./pkg/table > pyext/ask/type_table.h"

func TestTheTableIsUpToDate(t *testing.T) {
	committed, err := os.ReadFile("../../pyext/ask/type_table.h")
	if err != nil {
		t.Fatal(err)
	}
	var made bytes.Buffer
	writeTable(&made)
	if !bytes.Equal(made.Bytes(), committed) {
		t.Error("type_table.h is not what this program writes; run: " + command)
	}
}
