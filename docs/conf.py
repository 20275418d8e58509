"""How Sphinx makes a site of these pages: `make docs`."""

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import dlpack

DOCS = Path(__file__).resolve().parent
sys.path.append(str(DOCS))

from reference import INVENTORIES, docstring, signature  # noqa: E402

project = "dlpack"
project_copyright = "the authors of dlpack"
version = release = dlpack.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
myst_heading_anchors = 4
smartquotes = False  # what is in quotes can be pasted
intersphinx_mapping = {name: (url, f"{name}.inv") for name, url in INVENTORIES.items()}
autosummary_generate = False
copybutton_exclude = ".linenos, .gp, .go"  # copies an example without >>> and its output
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88
html_theme = "furo"
html_title = f"dlpack {release}"
html_static_path = ["site.css", "site.js"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_extra_path = ["exchanges.html"]
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


def setup(app: Sphinx) -> None:
    app.connect("source-read", include_file)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", docstring)
