"""Every block of code in the pages beside the code is run by a test, or is a list of commands that
there are. Guides of docs/ have rules of their own: `tests/support/guides.py`."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Mapping

import pytest

from tests.support.deployed import image

ROOT = image.ROOT
RUN_BY: Mapping[tuple[str, str], tuple[int, str]] = {
    ("README.md", "text"): (1, "tests/system/test_demo.py"),
    ("README.md", "sh"): (1, "tests/system/test_guides.py"),
    ("connect_runtime/README.md", "python"): (2, "tests/unit/test_author_guide.py"),
    ("connect_runtime/README.md", "sh"): (1, "tests/system/test_guides.py"),
    ("mm2/client/README.md", "python"): (2, "tests/interop/test_offsets_translate.py"),
}
"""By page and kind: how many there are, and the test that runs them as they stand in the page."""
PAGES = sorted(
    str(page.relative_to(ROOT))
    for folder in (
        "",
        "docs/",
        "connect_runtime/**/",
        "mm2/**/",
        "grafana/*/",
        "grafana/",
        "deploy/**/",
    )
    for page in ROOT.glob(f"{folder}README*.md")
    if "node_modules" not in page.parts
)
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STRAY = re.compile(r"^\s*(?:```|~~~)", re.MULTILINE)
_TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


def wrong(name: str, text: str) -> list[str]:
    """Blocks that nobody runs; in lists, what is no command."""
    found = ["a fence that is not read"] if _STRAY.search(_FENCE.sub("", text)) else []
    blocks = _FENCE.findall(text)
    for kind, count in Counter(kind for kind, _ in blocks if kind).items():
        known, _ = RUN_BY.get((name, kind), (0, ""))
        if count != known:
            found.append(f"{count} blocks of kind {kind}, and tests run {known}")
    listed = (line for kind, block in blocks if not kind for line in block.splitlines())
    return [*found, *(told for line in listed for told in _no_command(line))]


def _no_command(line: str) -> list[str]:
    """A line of a list: the command, and behind two spaces or more what it does."""
    command, _, _ = line.partition("  ")
    program, *arguments = shlex.split(command.removesuffix(" …"))
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    match program:
        case "make" if arguments[0] in _TARGET.findall((ROOT / "Makefile").read_text()):
            return []
        case "mm2":
            return image.not_a_command([program, *arguments])
        case _ if program in scripts and all(each.endswith(".properties") for each in arguments):
            return []
    return [f"{command}: is no command"]


@pytest.mark.parametrize("name", PAGES)
def test_every_block_is_run_or_lists_commands(name):
    assert wrong(name, (ROOT / name).read_text(encoding="utf-8")) == []


def test_pages_are_found_and_so_is_who_runs_their_blocks():
    assert {page for page, _ in RUN_BY} | {"grafana/README.md"} <= {*PAGES}
    for (page, kind), (_, test) in RUN_BY.items():
        text = (ROOT / test).read_text(encoding="utf-8")
        assert "README" in text, (page, test)
        assert f"```{kind}" in text, (page, test)


FENCE = "```"


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (f"{FENCE}sh\nmm2 run\n{FENCE}\n", "2 blocks of kind sh, and tests run 1"),
        (f"{FENCE}python\npass\n{FENCE}\n", "1 blocks of kind python, and tests run 0"),
        (f"{FENCE}yaml\na: 1\n{FENCE}\n", "kind yaml"),
        (f"{FENCE}console\n$ ls\n{FENCE}\n", "kind console"),
        (f"{FENCE}\nmm2 rum   runs\n{FENCE}\n", "No such command"),
        (f"{FENCE}\nmake tea     a cup\n{FENCE}\n", "make tea: is no command"),
        (f"{FENCE}\nkubectl get pods\n{FENCE}\n", "is no command"),
        (f"  {FENCE}sh\n  mm2 run\n  {FENCE}\n", "not read"),
    ],
)
def test_a_block_that_is_neither_is_seen(block, told):
    found = wrong("README.md", (ROOT / "README.md").read_text(encoding="utf-8") + "\n" + block)
    assert any(told in each for each in found), found
