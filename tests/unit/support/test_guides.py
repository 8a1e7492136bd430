from __future__ import annotations

import re

import pytest

from tests.support import guides
from tests.support.deployed import image

FENCE = "```"
PAGES = sorted((image.DEPLOY / "guides").glob("*.md"))


def page(*parts: tuple[str, str]) -> str:
    return "\n".join(f"{FENCE}{kind}\n{text}\n{FENCE}\n" for kind, text in parts)


def test_what_is_typed_and_what_it_prints():
    found = guides.blocks("# A\n\n" + page(("sh", "one"), ("text", "said"), ("console", "$ x")))
    assert found == [guides.Block(line=4, text="one\n", prints="said\n")]


def test_what_stands_apart_is_not_printed_by_it():
    (found,) = guides.blocks(page(("sh", "one")) + "\nwords\n" + page(("text", "said")))
    assert found.prints == ""


def test_a_kind_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="line 1: a block of kind 'bash'"):
        guides.blocks(page(("bash", "one")))


def block(prints: str = "") -> guides.Block:
    return guides.Block(line=7, text="x", prints=prints)


@pytest.mark.parametrize(
    ("prints", "said", "missing"),
    [
        ("a … z", "0 a b  z 1", False),
        ("a\nc", "a\nb\nc", False),
        ("c\na", "a\nb\nc", True),
        ("a … z", "a", True),
        ("1000", "1000", False),
    ],
)
def test_lines_have_to_come_in_this_order(prints, said, missing):
    output = f"::block 0\n{said}\n::block 1\n"
    assert bool(guides.wrong([block(prints)], output, 0)) is missing


def test_the_block_that_failed_is_told_with_what_it_said():
    output = "::block 0\nfine\n::block 1\nboom\n"
    (told,) = guides.wrong([block(), block("never")], output, 3)
    assert "line 7: ended with 3" in told
    assert "boom" in told


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_of_a_guide_lead_somewhere(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[\w-]+)?\)", text):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_guide_is_in_the_index_and_short(path):
    index = (path.parent / "README.md").read_text(encoding="utf-8")
    assert path.name == "README.md" or f"({path.name})" in index
    generated = {"configuration.md", "metrics.md"}
    assert path.name in generated or len(path.read_text(encoding="utf-8").splitlines()) < 200
