"""The API reference: signatures from the type stubs or the source, words from the docstrings, which are plain text."""

import ast
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
STUBS = DOCS.parent / "python" / "dlpack" / "_dlpack.pyi"
# Each inventory, NAME.inv, is in Sphinx's first format: a line for each name that the reference links. No build
# needs the network.
INVENTORIES = {"python": "https://docs.python.org/3/", "numpy": "https://numpy.org/doc/stable/"}
LINKED = {
    line.split()[0]
    for name in INVENTORIES
    for line in (DOCS / f"{name}.inv").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
}
MODULES = {name.rpartition(".")[2]: name for name in LINKED if "." in name}


def stubs(body: list[ast.stmt], prefix: str = "dlpack.") -> dict[str, ast.FunctionDef]:
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found[prefix + node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= stubs(node.body, f"{prefix}{node.name}.")
    return found


SIGNATURES = stubs(ast.parse(STUBS.read_text(encoding="utf-8")).body)


def signature_of(kind: str, name: str, obj: Any) -> ast.FunctionDef | None:
    if kind == "function" and name not in SIGNATURES:
        SIGNATURES.update(stubs(ast.parse(textwrap.dedent(inspect.getsource(obj))).body))
    return SIGNATURES.get(name) if kind in ("function", "method", "attribute", "property") else None


class FullNames(ast.NodeTransformer):
    """Gives types the names that INVENTORIES have, and removes the underscores of those that docs/api.md explains."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        name = re.sub(r"^_(?=[A-Z])", "", node.id)
        return ast.Name(f"~{MODULES[name]}" if name in MODULES else name)


def annotation(node: ast.expr | ast.arguments | None) -> str:
    return ast.unparse(FullNames().visit(node)) if node else ""


def signature(
    app: Sphinx, kind: str, name: str, obj: Any, options: Any, given: str | None, returned: str | None
) -> tuple[str, str] | None:
    if kind not in ("function", "method") or not (stub := signature_of(kind, name, obj)):
        return None
    return f"({annotation(stub.args).removeprefix('self, ').removeprefix('self')})", annotation(stub.returns)


def docstring(app: Sphinx, kind: str, name: str, obj: Any, options: Any, given: list[str]) -> None:
    """Indented lines are code, and lines from >>> to an empty one an example."""
    stub = signature_of(kind, name, obj)
    lines = with_fields(given, stub.args) if stub and kind == "function" else given
    text: list[str] = []
    code = example = False
    for line in lines:
        example = bool(line) and (example or line.startswith(">>>"))
        if example or line.startswith("    ") or not line:
            if line.startswith("    ") and not code and not example:
                text += [".. code-block:: python", ""]
            text.append(line)
            code = line.startswith("    ") or (code and not line)
        else:
            code = False
            text.append(markup(line))
    if stub and kind in ("attribute", "property"):
        text += ["", f":type: {annotation(stub.returns)}"]
    given[:] = text


def markup(line: str) -> str:
    """Escapes what reStructuredText would read as markup, but for `code`; then links errors, and names with a dot."""
    if line.startswith(":type "):
        return line
    text = re.sub(r"(`)([^`]+)`|([\\*|]|_(?!\w))", lambda it: f"``{it[2]}``" if it[1] else f"\\{it[3]}", line)
    text = re.sub(r"(?<=as in )(asdlpack|frombuffer|from_pointer)\b", r":py:func:`\1`", text)
    return re.sub(
        r"(?<![\w.])(?:(?:\w+\.)+\w+|\w+Error)\b",
        lambda word: f":py:obj:`{word[0]}`" if word[0] in LINKED else word[0],
        text,
    )


def with_fields(lines: list[str], arguments: ast.arguments) -> list[str]:
    """Makes a field of each description of arguments: "shape: elements", "dtype, shape: as in frombuffer". An argument
    without one gets a field with its type, before the others or behind the summary."""
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    types = {arg.arg: annotation(arg.annotation) for arg in given}
    described: set[str] = set()
    parts: list[tuple[list[str], str]] = []  # a line, or the names and the description of arguments
    for line in lines:
        start = re.match(r"((?:\w+, )*\w+): (?=.)", line)
        names = start[1].split(", ") if start else []
        if start and set(names) <= types.keys() - described:
            described.update(names)
            parts.append((names, line[start.end() :]))
        elif line and parts and parts[-1][0]:
            names, text = parts.pop()
            parts.append((names, f"{text} {line}"))
        else:
            parts.append(([], line))
    first = next((i for i, (names, _) in enumerate(parts) if names), lines.index("") + 1)
    parts[first:first] = [([name], "") for name in types if name not in described] + [([], "")] * (not described)
    made: list[str] = []
    for names, text in parts:
        for name in names:
            made += [f":type {name}: {types[name]}", f":param {name}: {text}"]
        if not names:
            made.append(text)
    return made
