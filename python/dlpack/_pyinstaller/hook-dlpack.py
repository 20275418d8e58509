# DLPackObject.__array__ imports numpy, which its callers import anyway. So numpy (50 MB) is bundled only if the
# application imports it. PyInstaller finds the other modules that dlpack needs from __init__.py.
excludedimports = ["numpy"]
