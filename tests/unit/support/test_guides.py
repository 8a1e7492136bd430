from __future__ import annotations

import re

import pytest

from tests.support import guides
from tests.support.deployed import image
from tests.support.guides import Block

FENCE = "```"
PAGES = sorted((image.ROOT / "docs" / "guides").glob("*.md"))


def page(*parts: tuple[str, str]) -> str:
    return "\n".join(f"{FENCE}{kind}\n{text}\n{FENCE}\n" for kind, text in parts)


def test_what_is_typed_and_what_it_prints():
    left_out = ("console docker", "$ docker run x"), ("text", "said, too")
    found = guides.blocks("# A\n\n" + page(("sh", "one"), ("text", "said"), *left_out))
    assert found == [Block(line=4, text="one\n", prints="said\n")]


@pytest.mark.parametrize(
    "text",
    [
        page(("bash", "one")),
        page(("", "one")),
        page(("yaml", "one: 1")),
        page(("console", "$ one")),
        page(("console luck", "$ one")),
        page(("sh docker", "one")),
        page(("text", "said")),
    ],
)
def test_what_would_be_neither_run_nor_left_out_for_a_reason_is_refused(text):
    with pytest.raises(ValueError, match="line 1: nobody runs a block of kind"):
        guides.blocks(text)


def test_what_stands_apart_is_printed_by_nothing():
    with pytest.raises(ValueError, match="line 5: nobody runs a block of kind 'text'"):
        guides.blocks(page(("sh", "one")) + "words\n" + page(("text", "said")))


@pytest.mark.parametrize("text", [f"{FENCE}sh\none\n", f"  {FENCE}sh\n  one\n  {FENCE}\n"])
def test_a_fence_that_is_not_read_is_refused(text):
    with pytest.raises(ValueError, match="a fence"):
        guides.blocks(text)


def block(prints: str = "") -> Block:
    return Block(line=7, text="x", prints=prints)


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
def test_every_block_of_a_guide_is_run_or_left_out_for_a_reason(path):
    guides.blocks(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_guide_is_in_the_index_and_short(path):
    index = (path.parent / "README.md").read_text(encoding="utf-8")
    assert path.name == "README.md" or f"({path.name})" in index
    generated = {"configuration.md", "metrics.md"}
    assert path.name in generated or len(path.read_text(encoding="utf-8")) < 30_000


@pytest.mark.parametrize(
    "path",
    [
        *PAGES,
        *sorted((image.DEPLOY / "samples").glob("*")),
        image.DEPLOY / "clusters.yaml",
        *(image.ROOT / each / "README.md" for each in (".", "connect_runtime", "mm2/client")),
    ],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_nothing_that_is_pasted_has_an_address_of_the_sandbox(path):
    """Another Kafka may listen there: guides take addresses from `mm2 sandbox env`."""
    assert not re.search(r":1909\d|:1919\d", path.read_text(encoding="utf-8"))
