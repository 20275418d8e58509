"""nanobind: items of less than a byte that are padded to bytes count as packed ones

Expected: 4 bytes for 4 items, or TypeError: an ndarray can't tell its function that they are padded
Seen with nanobind 3.1.0: 2 bytes

    "bit mask to indicate that whether a sub-byte type is packed or padded. The default for sub-byte types (ex: fp4/fp6)
    is assumed packed. This flag can be set by the producer to signal that a tensor of sub-byte type is padded."

dlpack.h 1.3, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED. src/nb_ndarray.cpp, ndarray_import_impl, reads one flag alone:
that of read-only memory.

Rules: consumer-padded (nanobind).
"""

import ctypes
import importlib.util
import subprocess
import sysconfig

import nanobind
import numpy as np

SOURCE = """
#include "nb_combined.cpp"
NB_MODULE(probe, module)
{
    module.def("nbytes", [](nanobind::ndarray<> array) { return array.nbytes(); });
}
"""
include = nanobind.include_dir()
folders = [sysconfig.get_path("include"), include, nanobind.source_dir(), f"{include}/../ext/robin_map/include"]
options = ["-std=c++17", "-O0", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing", "-x", "c++", "-"]
command = ["c++", *options, *(f"-I{folder}" for folder in folders), "-o", "probe.so"]
subprocess.run(command, input=SOURCE, text=True, check=True)

spec = importlib.util.spec_from_file_location("probe", "./probe.so")
probe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(probe)

address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class Producer:
    def __dlpack__(self, **_):
        capsule = np.arange(4, dtype="u1").__dlpack__(max_version=(1, 0))
        managed = address_of(capsule, b"dltensor_versioned")
        ctypes.c_uint64.from_address(managed + 24).value |= 4  # flags
        ctypes.c_uint8.from_address(managed + 52).value = 17  # float4_e2m1fn
        ctypes.c_uint8.from_address(managed + 53).value = 4  # bits
        return capsule

    def __dlpack_device__(self):
        return 1, 0


try:
    seen = probe.nbytes(Producer())
except TypeError:
    raise SystemExit("fixed") from None
assert seen == 4, f"{seen} bytes"
