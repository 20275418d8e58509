"""The page of docs/exchanges.html, and the table that it shows, of reports made by hand."""

import sys
from html.parser import HTMLParser
from importlib import import_module
from typing import Any

import pytest

from dlpack.tests import Check, Exchange, Report
from dlpack.tests.table import Table, summary, word
from support.alone import ROOT

sys.path.append(str(ROOT / "docs"))
matrix_page = import_module("matrix_page")
page = matrix_page.page

HOSTILE = "<script>alert('x')</script> & \"quoted\" \0\x1b[31m\x9b\u202e\udcff"
SHOWN = "<script>alert('x')</script> & \"quoted\" " + r"\x00\x1b[31m\x9b\u202e\udcff"

VOID = {"meta", "br"}


def outcomes() -> list[Exchange]:
    """One exchange of each kind."""
    reversed: Any = "no negative strides", "ValueError: -1", "numpy", "works"
    bfloat16: Any = "no such type", "TypeError", "numpy", "refused"
    return [
        Exchange("numpy", "bytes", "standard library", "shared", proof="address"),
        Exchange("numpy", "big-endian", "layouts", "copied", "copied", reason="the bytes have to be swapped"),
        Exchange("numpy", "reversed", "layouts", "refused", "refused", *reversed),
        Exchange("numpy", "bfloat16", "data types", "refused", "refused", *bfloat16),
        Exchange("numpy", "Array", "cupy", "skipped", reason="no CUDA device"),
        Exchange("numpy", "Tensor", "torch", "failed", text="dtype arrived as int8, expected uint8"),
        Exchange("torch", "reversed", "layouts", "shared", "refused", "no negative strides", proof="write"),
    ]


def report(*exchanges: Exchange, **rest: Any) -> Report:
    return Report({"dlpack": "1.2.3"}, {"numpy": "2.4.6"}, exchanges=list(exchanges), **rest)


class Page(HTMLParser):
    """A page's visible text and its tags, which must be balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.parts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.parts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.parametrize(
    "exchange",
    [
        Exchange(HOSTILE, HOSTILE, HOSTILE, "failed", text=HOSTILE),
        Exchange(HOSTILE, HOSTILE, HOSTILE, "refused", "refused", HOSTILE, HOSTILE, HOSTILE, "works"),
        Exchange(HOSTILE, HOSTILE, HOSTILE, "shared", "refused", HOSTILE, proof=HOSTILE),
        Exchange(HOSTILE, HOSTILE, HOSTILE, "skipped", reason=HOSTILE),
    ],
    ids=lambda exchange: exchange.outcome,
)
def test_html_of_foreign_texts_has_no_markup_and_no_control(exchange: Exchange) -> None:
    text = page(
        Report(
            {HOSTILE: HOSTILE},
            {HOSTILE: HOSTILE},
            {HOSTILE: HOSTILE},
            [exchange, Exchange(HOSTILE, "bytes", "standard library", "shared")],
            [Check(HOSTILE, HOSTILE, "failed", HOSTILE), Check(HOSTILE, HOSTILE, "skipped", HOSTILE)],
            [HOSTILE],
        )
    )
    found = Page(text)
    assert found.of("script") == []
    assert SHOWN in found.text
    assert text.replace("\n", "").isprintable()


def test_a_cell_tells_all_that_is_known_of_its_exchange() -> None:
    text = Page(page(report(*outcomes()))).text
    assert "shared standard library: bytes → numpy; by its address" in text
    assert "by copy layouts: reversed → numpy; numpy says ValueError: -1; no negative strides; copy=True works" in text
    assert "refused data types: bfloat16 → numpy; numpy says TypeError; no such type; copy=True is refused too" in text
    assert "skipped cupy: Array → numpy; no CUDA device" in text
    assert "shared * layouts: reversed → torch; by a write that the other side sees; news, known until now" in text


def test_failures_stand_before_the_table_and_are_told_once() -> None:
    failing = [Exchange("torch", name, "layouts", "failed", text="a wrong stride") for name in ("first", "second")]
    checks = [Check("torch", "a check", "failed", "a lost reference")]
    text = Page(page(report(*failing, checks=checks, problems=["mxnet: its process died"]))).text
    failures, table = text.index("Failures"), text.index("Who takes what")
    for told in "a wrong stride", "torch: a check", "a lost reference", "mxnet: its process died":
        assert failures < text.index(told) < table
    assert text[:table].count("a wrong stride") == 1


def test_without_failures_none_are_mentioned() -> None:
    text = Page(page(report(outcomes()[0]))).text
    assert "1 shared, 0 failed" in text
    assert "Failures" not in text
    assert "no library takes part" in Page(page(Report())).text


def test_refusals_of_the_same_reason_stand_together() -> None:
    refused = [
        Exchange("torch", name, "layouts", "refused", "refused", "no negative strides", text, "torch", "works")
        for name, text in (("first", "ValueError: -1"), ("second", "ValueError: -1"), ("third", "ValueError: -2"))
    ]
    shared = Exchange("torch", "fourth", "layouts", "shared")
    text = Page(page(report(*refused, shared))).text
    told = text[text.index("What is not shared") :]
    assert told.count("no negative strides") == 1
    assert "layouts: first · secondValueError: -1" in told
    assert "layouts: thirdValueError: -2" in told


def test_a_consumers_treatment_of_read_only_memory_is_shown() -> None:
    text = Page(page(report(outcomes()[0], consumers={"numpy": "stays read-only"}))).text
    assert "numpy shares 1. Read-only memory: stays read-only." in text


def test_the_table_has_a_caption_and_headers() -> None:
    found = Page(page(report(*outcomes())))
    assert "<td></td>" in page(report(*outcomes()))  # not tried
    assert len(found.of("caption")) == 1
    assert [attributes["scope"] for attributes in found.of("th")].count("col") == 2
    assert [attributes["scope"] for attributes in found.of("th")].count("row") == 6


def test_skipped_checks_are_shown_with_the_reason() -> None:
    checks = [Check("mpi4py", "Send and Recv", "skipped", "no mpiexec"), Check("numpy", "views", "passed")]
    found = Page(page(report(checks=checks)))
    assert "Send and Recv skipped: no mpiexec" in found.text
    assert "views" in found.text
    assert [sign["title"] for sign in found.of("i") if "title" in sign] == ["skipped", "passed"]


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    text = page(report(*outcomes()))
    found = Page(text)
    assert all(not {"src", "href", "srcset", "action"} & attributes.keys() for _, attributes in found.tags)
    assert {tag for tag, _ in found.tags}.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert "url(" not in text and "@import" not in text and "http:" not in text and "https:" not in text
    assert "default-src 'none'" in text


def test_the_rows_of_a_section_stay_together() -> None:
    pairs = ("layouts", "first"), ("numpy", "ndarray"), ("layouts", "second")
    table = Table(report(*(Exchange("numpy", name, section, "shared") for section, name in pairs)))
    assert table.rows == [("layouts", "first"), ("layouts", "second"), ("numpy", "ndarray")]


def test_the_counts_take_each_exchange_once_and_failures_of_every_kind() -> None:
    found = report(*outcomes(), checks=[Check("numpy", "views", "failed")], problems=["mxnet: unusable"])
    counts = "2 shared, 1 copied, 1 by copy, 1 refused, 1 skipped, 1 news, 3 failed"
    assert summary(found) == f"7 exchanges and 1 checks: {counts}"


def test_the_words_are_those_of_the_outcomes() -> None:
    words = ["shared", "copied", "by copy", "refused", "skipped", "FAILED", "shared *"]
    assert [word(exchange) for exchange in outcomes()] == words


def test_refusals_are_grouped_by_their_cause() -> None:
    assert matrix_page.grouped(Table(report(*outcomes())), "numpy", "refused") == {
        matrix_page.Cause("numpy", "ValueError: -1", "no negative strides", "works"): [("layouts", "reversed")],
        matrix_page.Cause("numpy", "TypeError", "no such type", "refused"): [("data types", "bfloat16")],
    }
