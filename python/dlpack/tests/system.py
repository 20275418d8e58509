"""Processes and pipes, where Windows has others than Linux and macOS."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import IO, Any

if sys.platform == "win32":
    import _winapi
    import msvcrt

    ENDING = (signal.SIGTERM,)

    def usable_cpus() -> int:
        return os.cpu_count() or 1

    def start(command: Sequence[str], writing: int, **options: Any) -> "subprocess.Popen[bytes]":
        """A process that opens the pipe's end by its number, the last argument."""
        handle = msvcrt.get_osfhandle(writing)
        os.set_handle_inheritable(handle, True)
        return subprocess.Popen([*command, str(handle)], close_fds=False, **options)

    def inherited(number: int) -> int:
        return msvcrt.open_osfhandle(number, 0)

    def is_readable(pipe: IO[bytes], timeout: float) -> bool:
        """True if something, or the end, can be read in time."""
        last = time.monotonic() + timeout
        while time.monotonic() < last:
            try:
                if _winapi.PeekNamedPipe(msvcrt.get_osfhandle(pipe.fileno()), 0)[0]:
                    return True
            except OSError:  # the other end is closed
                return True
            time.sleep(0.01)
        return False

    def kill(process: "subprocess.Popen[bytes]") -> None:
        with contextlib.suppress(OSError):
            process.kill()

else:
    import select

    ENDING = (signal.SIGTERM, signal.SIGHUP)

    def usable_cpus() -> int:
        return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1

    def start(command: Sequence[str], writing: int, **options: Any) -> "subprocess.Popen[bytes]":
        """A process that opens the pipe's end by its number, the last argument; what it starts goes with it."""
        return subprocess.Popen([*command, str(writing)], pass_fds=[writing], start_new_session=True, **options)

    def inherited(number: int) -> int:
        return number

    def is_readable(pipe: IO[bytes], timeout: float) -> bool:
        """True if something, or the end, can be read in time."""
        return bool(select.select([pipe], [], [], timeout)[0])

    def kill(process: "subprocess.Popen[bytes]") -> None:
        """Also what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
