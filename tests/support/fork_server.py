"""Runs its argument, and then forks, in its state, each program that it is told to.

It reads a line of JSON, the program and two files for what that prints, and answers with the number of its process;
then any line, once that has ended, and answers with its exit status.
"""

import json
import os
import sys

exec(sys.argv[1])
while line := sys.stdin.readline():
    program, *files = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for descriptor, path in enumerate([os.devnull, *files]):
            opened = os.open(path, os.O_RDWR)
            os.dup2(opened, descriptor)
            os.close(opened)
        sys.stdin = open(0)
        exec(program)
        break
    print("pid", pid, flush=True)
    sys.stdin.readline()
    print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
