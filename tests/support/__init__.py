"""What tests share."""

import sys

from dlpack import _abi

# pytest_dlpack is built with a copy of this file. Here it is one module: asdlpack takes pointers to its structures.
sys.modules["pytest_dlpack._abi"] = _abi
