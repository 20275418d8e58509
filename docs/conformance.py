"""Tries the rules of pytest-dlpack on each library of several environments, and prints who breaks what. With --write it
also writes conformance.json, conformance.md and conformance_rules.md into this folder. `make conformance` makes the
environments and calls this with their interpreters. --only NAME,NAME tries these alone, and takes the others from
conformance.json; `--only ,` just writes the pages anew."""

import ast
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matrix import escaped, folded, row

import dlpack
from pytest_dlpack.rules import RULES
from pytest_dlpack.rules.rule import HEADER, Rule

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
RESULTS = DOCS / "conformance.json"
MODULES = (
    "numpy torch jax tensorflow paddle mlx tvm_ffi tvm nanobind pyarrow onnxruntime mpi4py dpctl pydlpack cupy".split()
)
FUNCTIONS = {"producer": "make", "consumer": "take"}
LACKS = {"mpi4py": "producer", "cupy": "consumer"}  # cupy takes none of the memory of the CPU
HERE = """
import json, platform, sys
from importlib.metadata import distributions, packages_distributions
versions = {it.name: it.version for it in distributions()}
names = {module: found[0] for module, found in packages_distributions().items()}
found = {it: versions[names.get(it, it)] for it in sys.argv[1:] if names.get(it, it) in versions}
print(json.dumps([platform.python_version(), found]))
"""
JUDGE = """
import json, sys
from pytest_dlpack.judge import Judge
from pytest_dlpack.rules import RULES
with Judge(json.loads(sys.argv[1])) as judge:
    for rule in RULES.values():
        if rule.side in judge.specs:
            judge.verdict(rule)
print(json.dumps([judge.verdicts, judge.problems]))
"""
GROUPS = {  # by the first that matches
    "exchange API": "exchange-api",
    "malformed": "malformed",
    "errors": "error|no-|cannot|other-name",
    "devices, streams": "device|stream",
    "copies": "cop(y|ie)|shares|shared|write",
    "data types": "data-type|bits|lanes|padded",
    "layout": "stride|size|offset|dimension|layout",
    "versions, flags": "version|major|minor|legacy|flag|read-only|keywords|old-",
    "lifetime": "",
}


def group_of(rule: str) -> str:
    return next(group for group, pattern in GROUPS.items() if re.search(pattern, rule))


class Result(dict[str, Any]):
    """The version of a library and of Python, and the outcome and text of each rule that the library does not keep."""

    @property
    def title(self) -> str:
        return f"{self['name']} {self['version']}"

    def broken(self, severity: str) -> list[tuple[str, str]]:
        return [
            (rule, text)
            for rule, (outcome, text) in self["rules"].items()
            if outcome == "broken" and RULES[rule].severity == severity
        ]

    def tried(self, rule: str) -> bool:
        sides = self["sides"]
        return RULES[rule].side in sides and self["rules"].get(rule, ("kept", ""))[0] != "skipped"


def stable(text: str) -> str:
    """The same in each run: without addresses, and the times of a log."""
    text = re.sub(r"0x[0-9a-f]{6,}|\b\d{14,}\b", "0x...", text)
    text = re.sub(r"(still busy after) [\d.]+ s", r"\1 its limit of time", text)
    return re.sub(r" \((I0000|W0000|!!!!|File|frame).*", "", text)


def try_out(python: str, module: str) -> dict[str, Any]:
    sides = [side for side in ("producer", "consumer") if side != LACKS.get(module)]
    specs = {side: f"libraries:{module}_{FUNCTIONS[side]}" for side in sides}
    folders = os.pathsep.join([str(ROOT / "python"), str(ROOT / "conformance")])
    command = [python, "-c", JUDGE, json.dumps(specs)]
    found = subprocess.check_output(command, env=os.environ | {"PYTHONPATH": folders}, stderr=-3)
    verdicts, problems = json.loads(found)
    rules = {rule: [outcome, stable(text)] for rule, (outcome, text) in verdicts.items() if outcome != "kept"}
    return {"sides": sides, "rules": rules, "problems": [stable(each) for each in problems]}


def results(pythons: list[str], only: list[str]) -> list[Result]:
    """Tries each version of a library once, in the first environment that has it. Keeps the known result of a library
    that no environment has, such as cupy without a GPU."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    found: dict[str, Result] = {}
    tried: set[str] = set()
    for python in pythons if only != ["", ""] else []:
        told = json.loads(subprocess.check_output([python, "-c", HERE, *MODULES], env=os.environ | {"PYTHONPATH": ""}))
        modules = {"dlpack": dlpack.__version__} if not tried else {}
        for module, version in {**modules, **{each: told[1][each] for each in MODULES if each in told[1]}}.items():
            title = f"{module} {version}"
            if title in tried or (only and module not in only):
                continue
            tried.add(title)
            print(title, end=": ", flush=True)
            seen = try_out(python, module)
            result = found[title] = Result(name=module, version=version, python=told[0], **seen)
            musts, shoulds = len(result.broken("must")), len(result.broken("should"))
            print(f"breaks {musts} that are a must, {shoulds} others", flush=True)
    have = {it["name"] for it in found.values()}
    kept = {it.title: it for it in map(Result, known) if only or it["name"] not in have}
    return sorted((kept | found).values(), key=lambda it: ("dlpack", *MODULES).index(it["name"]))


def reports() -> dict[tuple[str, str], str]:
    """Returns the link to a report by library and rule, which its docstring names."""
    found = {}
    for path in sorted((DOCS / "reports").glob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        title = text.split("\n")[0].partition(": ")[2]
        *_, (rules, libraries) = re.findall(r"^Rules: ([^(]+) \((.*)\)\.", text, re.MULTILINE)
        for library in libraries.split(", "):
            for rule in rules.split(", "):
                found[library, rule] = f"[{title}](reports/{path.name})"
    return found


def page(found: list[Result]) -> Iterator[str]:
    yield "# Conformance: who keeps the rules of DLPack"
    yield ""
    yield f"[pytest-dlpack](pytest_dlpack.md) tries {len(RULES)} rules on each library. A must is stated by"
    yield f"{HEADER}, by its Python specification or by the array API standard. A should is only recommended there, can"
    yield "be read in two ways, or is what programs rely on. [All rules](conformance_rules.md): the source of each, who"
    yield "breaks it, and what was seen. `make conformance WRITE=1` writes both pages."
    yield ""
    yield "## All libraries"
    yield ""
    yield "Each cell: rules kept / rules tried. Bold: a must is broken. Empty: nothing could be tried."
    yield ""
    yield from row("", *(f"[{group}](conformance_rules.md#{anchor(group)})" for group in GROUPS))
    yield from row("---", *[":---:"] * len(GROUPS))
    for result in found:
        yield from row(result.title, *(cell(result, group) for group in GROUPS))
    yield ""
    yield f"Tried in CPython {', '.join(sorted({result['python'] for result in found}))}."
    yield "cupy was tried on an NVIDIA H200, as a producer. dpctl's arrays are on a device of oneAPI, and are copied to"
    yield "the CPU. pydlpack's module is loaded under another name than dlpack."
    yield ""
    yield "## Broken musts"
    yield ""
    yield f"{', '.join(result.title for result in found if not result.broken('must'))} break none."
    yield ""
    yield "The text after a rule says what happened. A link leads to a report: a program that shows it with the library"
    yield "alone."
    yield ""
    yield from broken_musts(found)


def broken_musts(found: list[Result]) -> Iterator[str]:
    yield from row("library", "broken musts")
    yield from row("---", "---")
    links = reports()
    others = {link: library for (library, _), link in links.items()}
    for result in found:
        musts: dict[str, list[str]] = {}
        for rule, text in result.broken("must"):
            seen = links.get((result["name"], rule), shortened(text, 80))
            others.pop(seen, None)
            musts.setdefault(seen, []).append(f"[`{rule}`](conformance_rules.md#{rule})")
        title = result.title
        for seen, rules in musts.items():
            yield from row(title, f"{', '.join(rules)}: {seen}")
            title = ""
    yield from ("", "Reports on what breaks no must:", "")
    for link, library in others.items():
        yield escaped(f"- {library}: {link}")


def rules_page(found: list[Result]) -> Iterator[str]:
    yield from ("---", "tocdepth: 2", "---", "", "# The rules of DLPack, and who breaks them")
    yield ""
    yield "[Conformance](conformance.md) is the short form of this page. The name of a rule is the id of its test:"
    yield ""
    yield "    pytest --pyargs pytest_dlpack --dlpack-producer mylib.testing:make -k producer-lifetime"
    for group in GROUPS:
        yield from ("", f"## {group[0].upper()}{group[1:]}")
        for rule in RULES.values():
            if group_of(rule.id) == group:
                yield from ("", f"### {rule.id}", "", *about(rule, found))
    if any(result["problems"] for result in found):
        yield from ("", "## Other findings", "")
        yield from (item(f"{result.title}: {problem}") for result in found for problem in result["problems"])


def about(rule: Rule, found: list[Result]) -> Iterator[str]:
    source = re.sub(r"dlpack\.h \d+\.\d+", "dlpack.h", rule.source)  # conformance.md has the version
    broken: dict[str, list[str]] = {}
    for result in found:
        outcome, text = result["rules"].get(rule.id, ("kept", ""))
        if outcome == "broken":
            broken.setdefault(text, []).append(result.title)
    kept = sum(result.tried(rule.id) for result in found) - sum(map(len, broken.values()))

    def wrapped(text: str) -> list[str]:
        return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)

    who = f"Kept by {kept}" + (f", broken by {sum(map(len, broken.values()))}" if broken else "")
    yield from wrapped(f"**{rule.severity}**: {shown(rule.gist)}")
    lines = [item(f"{', '.join(titles)}: {text}") for text, titles in broken.items()]
    yield from folded(who, [*wrapped(f"Source: {shown(source)}."), *([""] if lines else []), *lines])


def anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


def cell(result: Result, group: str) -> str:
    rules = [rule for rule in RULES if group_of(rule) == group and result.tried(rule)]
    broken = [rule for rule in rules if rule in result["rules"]]
    text = f"{len(rules) - len(broken)}/{len(rules)}" if rules else ""
    return f"**{text}**" if any(RULES[rule].severity == "must" for rule in broken) else text


def shortened(text: str, width: int = 240) -> str:
    return re.sub(r"[*`]", r"\\\g<0>", textwrap.shorten(text, width, placeholder=" ..."))


def shown(text: str) -> str:
    return escaped(shortened(text))


def item(text: str) -> str:
    return f"- {shown(text)}"


def main(arguments: list[str]) -> None:
    only = arguments[arguments.index("--only") + 1].split(",") if "--only" in arguments else []
    found = results([os.path.abspath(each) for each in arguments if each.endswith("python")], only)
    if "--write" in arguments:
        kept = ",\n".join(json.dumps(each) for each in found)
        RESULTS.write_text(f"[\n{kept}\n]\n", encoding="utf-8")
        for name, lines in {"conformance.md": page(found), "conformance_rules.md": rules_page(found)}.items():
            (DOCS / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    own = [each for each in found if each["name"] == "dlpack"]
    sys.exit(any(each.broken("must") or each["problems"] for each in own))


if __name__ == "__main__":
    main(sys.argv[1:])
