"""Every command of mm2 that people are told to type, anywhere below deploy/, is one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from tests.support.deployed import image

PLACES = sorted(
    path
    for path in image.DEPLOY.rglob("*")
    if path.suffix in {".md", ".yaml", ".yml", ".service"} or path.name == "Dockerfile"
)
_WORDS = r"mm2 (?:'[^'\n]*'|[^`'\n|>;&)])*"
_INLINE = re.compile(rf"`({_WORDS})`")
_TYPED = re.compile(rf"(?:^|[$#] |until |; do )({_WORDS})", re.MULTILINE)
_FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PRINTED = "text"
_INCOMPLETE = "Missing "
"""A command may be named in a sentence without what else it needs."""


def told(text: str) -> Iterator[str]:
    """The command lines of a text; `…` in one stands for what is left out."""
    lines = _INLINE.findall(text)
    for kind, block in _FENCED.findall(text):
        if kind != _PRINTED:
            lines += _TYPED.findall(block)
    for line in (each.split(" #")[0].rstrip("\\ ") for each in lines):
        if "…" not in line:
            yield line


def wrong(text: str) -> list[str]:
    found = []
    for line in told(text):
        found += image.not_a_command(shlex.split(line))
    return [each for each in found if _INCOMPLETE not in each]


@pytest.mark.parametrize("path", PLACES, ids=lambda path: path.name)
def test_they_are_commands(path):
    assert wrong(path.read_text(encoding="utf-8")) == []


def test_what_is_none_is_seen():
    assert wrong("Type `mm2 offsets rebuild --quickly` now.") != []
    assert wrong("```console docker\n$ mm2 replicate\n```") != []
    assert wrong("```sh\nmm2 sandbox kafka topcis --list \\\n  --cluster east\n```") != []
    assert wrong("```text\nmm2 replicate\n```") == []
    assert wrong("```sh\nuntil mm2 lag --max-records 0; do sleep 2; done\n```") == []


def test_they_are_found():
    assert sum(len(list(told(path.read_text(encoding="utf-8")))) for path in PLACES) > 60
