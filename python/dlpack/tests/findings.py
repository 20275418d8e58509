"""Say what is wrong: errors that checks raise, and texts of errors, bytes and signals.

It imports nothing of this package: pytest-dlpack is built with a copy of this file.
"""

import signal

LONGEST = 2000  # characters that are kept of a library's error


class Skip(Exception):
    """Raised if something can't be tried; the text says why."""


class Wrong(Exception):
    """Raised if a check fails; the text says what was seen and what was expected."""


def expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Wrong(otherwise)


def one_line(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "(its text can't be had)"
    return f"{type(error).__name__}: {text}".removesuffix(": ")[:LONGEST]


def difference(values: bytes, expected: bytes) -> str:
    """Shows the 16 bytes around the first one that differs."""
    same = next((i for i, pair in enumerate(zip(values, expected, strict=False)) if pair[0] != pair[1]), 0)
    part = slice(same // 16 * 16, same // 16 * 16 + 16)
    place = f" from byte {part.start} on" if part.start else ""
    return f"{values[part].hex(' ')}..., expected {expected[part].hex(' ')}...{place}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
