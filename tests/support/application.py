"""A program that uses all parts of the package that depend on the place of its files. test_places.py and
test_frozen.py run it in several places. It prints nothing, and exits with status 7."""

import array
import os
import select
import sys
import warnings

import dlpack

warnings.simplefilter("ignore")  # of the core's threads, from Python 3.12 on


def copies(typecode):
    """Whether a reversed array is copied right: by the core, which has met no other of this type."""
    backwards = memoryview(array.array(typecode, range(5)))[::-1]
    return list(memoryview(dlpack.asdlpack(backwards, copy=True))) == [4, 3, 2, 1, 0]


def use(typecode):
    memory = bytearray(3)
    x = dlpack.asdlpack(memory)
    assert memoryview(x).tolist() == [0, 0, 0]
    assert x.device == (dlpack.DLDeviceType.kDLCPU, 0)
    assert dlpack.describe(x)["protocol"] == "buffer"
    assert copies(typecode)


def work():
    os.chdir("/")  # a path that was relative is wrong from here on
    use("i")
    child = os.fork()
    if child == 0:
        use("d")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def outlive():
    """A child outlives the application, and its parent, which removes the unpacked folder. It prints its error."""
    use("i")
    unpacker = os.pidfd_open(os.getppid())
    if os.fork() == 0:
        select.select([unpacker], [], [])
        try:
            copies("d")
        except RuntimeError as error:
            print(error)


def main():
    outlive() if "outlive" in sys.argv else work()
    sys.exit(7)


if __name__ == "__main__":
    main()
