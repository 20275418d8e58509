# DLPackObject.__array__ imports numpy, which its callers have: so numpy, 50 MB, comes along only where the application
# imports it. What else dlpack needs, PyInstaller sees in __init__.py.
excludedimports = ["numpy"]
