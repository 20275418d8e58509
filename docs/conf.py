"""How Sphinx makes a site of these pages: `make docs`. The API reference has its signatures from the type stubs, and
its words from the docstrings of the built extension."""

import ast
import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import dlpack

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
STUBS = ROOT / "python" / "dlpack" / "_dlpack.pyi"

project = "dlpack"
project_copyright = "the authors of dlpack"
version = release = dlpack.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88
html_theme = "furo"
html_title = f"dlpack {release}"
html_static_path = ["site.css", "site.js"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_extra_path = ["matrix.html"]
html_search_scorer = str(DOCS / "search.js")
html_show_sourcelink = False
# The pages that are made of files outside docs, by the path of the file.
PAGES = {
    match[1]: page.name
    for page in DOCS.glob("*.md")
    if (match := re.match(r"```{include} (\S+)\n", page.read_text(encoding="utf-8")))
}


def include_file(app: Sphinx, page: str, source: list[str]) -> None:
    """The page of a file outside docs: its links begin at that file."""
    if found := re.match(r"```{include} (\S+)\n```\n", source[0]):
        file = DOCS / found[1]

        def link_from_docs(link: re.Match[str]) -> str:
            path = os.path.relpath(file.parent / link[0], DOCS)
            return PAGES.get(path, path)

        text = file.read_text(encoding="utf-8")
        source[0] = re.sub(r"(?<=\]\()(?!\w+:|#)[^)]+", link_from_docs, text) + source[0][found.end() :]


def stubs(body: list[ast.stmt], prefix: str = "dlpack.") -> dict[str, ast.FunctionDef]:
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found[prefix + node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= stubs(node.body, f"{prefix}{node.name}.")
    return found


SIGNATURES = stubs(ast.parse(STUBS.read_text(encoding="utf-8")).body)


def annotation(node: ast.expr | ast.arguments | None) -> str:
    """Without the underscores of the names that docs/api.md explains."""
    return re.sub(r"\b_(?=[A-Z])", "", ast.unparse(node)) if node else ""


def signature(
    app: Sphinx, kind: str, name: str, obj: Any, options: Any, given: str | None, returned: str | None
) -> tuple[str, str] | None:
    stub = SIGNATURES.get(name)
    if stub is None or kind not in ("function", "method"):
        return None
    return f"({annotation(stub.args).removeprefix('self, ').removeprefix('self')})", annotation(stub.returns)


def docstring(app: Sphinx, kind: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: what reStructuredText would read as markup is escaped; indented lines are code, and
    lines from >>> to an empty one an example."""
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
            text.append(re.sub(r"([\\*`|]|_(?!\w))", r"\\\1", line))
    if kind in ("attribute", "property") and name in SIGNATURES:
        text += ["", f":type: {annotation(SIGNATURES[name].returns)}"]
    lines[:] = text


def setup(app: Sphinx) -> None:
    app.connect("source-read", include_file)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", docstring)
