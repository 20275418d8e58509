"""The exchange tests of this repository: adapters for more libraries than `python -m dlpack.tests` comes with, and what
else is tried of each library, beyond taking one object.

`python tests/exchanges` is that command with these adapters. dlpack.tests.libraries says what an adapter is.
"""
