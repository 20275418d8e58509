"""Runs the hint of an error as it is typed."""

import ast


def hint_of(text):
    """The text in the last brackets of an error; "" if it does not end with any."""
    text = text.partition("; before that make ")[0].partition("; asdlpack looked for ")[0]
    cut = text.rfind(" (")
    while cut > 0 and text.count("(", cut) != text.count(")", cut):
        cut = text.rfind(" (", 0, cut)
    return text[cut + 2 : -1] if cut > 0 and text.endswith(")") else ""


def expression_of(hint):
    """The expression that is to be passed: as little behind "pass " as is one."""
    _, passed, rest = hint.partition("pass ")
    assert passed, hint
    for end in [i for i, letter in enumerate(rest) if letter in " ,;:"] + [len(rest)]:
        try:
            ast.parse(rest[:end], mode="eval")
        except SyntaxError:
            continue
        return rest[:end]
    raise AssertionError(f"{hint!r} has no expression")


def follow(text, names):
    """asdlpack of the object that an error says to pass; names are the variables that it may use."""
    from dlpack import asdlpack

    hint = hint_of(text)
    expression = "obj" if hint.startswith("pass copy=None") else expression_of(hint)
    if hint.startswith("after obj.flush()"):
        names["obj"].flush()
    return asdlpack(eval(expression, names), copy=None if "copy=None" in hint else False)
