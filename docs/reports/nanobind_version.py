"""nanobind: a tensor of version 2.0 is taken

Expected: TypeError
Seen with nanobind 3.1.0: the function gets an ndarray

    "If an obtained DLPack tensor has a major version that disagrees with the version number specified in this header
    file [...], the consumer must call the deleter (and it is safe to do so). It is not safe to access any other fields
    as the memory layout will have changed."

dlpack.h 1.3, DLPackVersion. src/nb_ndarray.cpp, ndarray_import_impl, does not read the version.

Rules: consumer-newer-major (nanobind).
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
    module.def("size", [](nanobind::ndarray<> array) { return array.size(); });
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
        capsule = np.arange(4.0).__dlpack__(max_version=(1, 0))
        ctypes.c_uint32.from_address(address_of(capsule, b"dltensor_versioned")).value = 2
        return capsule

    def __dlpack_device__(self):
        return 1, 0


try:
    size = probe.size(Producer())
except TypeError:
    raise SystemExit("fixed") from None
raise AssertionError(f"an ndarray of {size} items")
