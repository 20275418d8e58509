"""paddle: current_work_stream of a device that is not there ends the process

Expected: -1, with a Python exception set
Seen with paddlepaddle 3.3.1, built for the CPU: SIGSEGV

    "-1 on failure with a Python exception set"

dlpack.h 1.3, DLPackCurrentWorkStream.

Rules: producer-exchange-api-stream-error (paddle).
"""

import ctypes

import paddle

address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

table = address_of(paddle.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
function = ctypes.c_void_p.from_address(table + 48).value  # behind the header's 16 bytes the fifth of the functions
stream_of = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))(function)
try:
    stream_of(2, 0, ctypes.c_void_p())  # CUDA's first device
except Exception as error:
    print(repr(error))
