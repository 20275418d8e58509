"""Checks the links of the site that Sphinx made, also those of raw HTML and of the theme: each page, file and anchor
exists, no link leads to its own page, and links elsewhere are https and to a host that these documents are known to
name. Also checks that Sphinx has not written over a page of this folder.

python docs/links.py docs/_build/html
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

HOSTS = {
    "dmlc.github.io",
    "docs.python.org",
    "github.com",
    "numpy.org",
    "pradyunsg.me",  # of the theme's author, at the foot of each page
    "pypi.org",
    "semver.org",
    "www.sphinx-doc.org",
}


class Page(HTMLParser):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def overwritten(site: Path) -> Iterator[str]:
    for page in Path(__file__).parent.glob("*.html"):
        written = site / page.name
        if written.is_file() and written.read_bytes() != page.read_bytes():
            yield f"{page.name}: Sphinx wrote another page of this name over it"


def broken(site: Path) -> Iterator[str]:
    pages = {path: Page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.scheme not in ("https", "data") or (parts.scheme == "https" and parts.netloc not in HOSTS):
                    yield f"{path.name}: {link}: not https, or a host that links.py does not know"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{path.name}: {link}: no such file"
            elif parts.path and target == path and not parts.fragment:
                yield f"{path.name}: {link}: leads to its own page"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{path.name}: {link}: no such anchor"


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    sys.exit("\n".join(sorted({*broken(site), *overwritten(site)})) or None)
