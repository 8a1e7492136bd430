"""Whoever follows a guide literally, in an empty folder, gets where it leads: every block works."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import guides, mirror
from tests.support.image import stand_in

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

FOLDER = mirror.ROOT / "deploy" / "guides"
FOLLOW_S = 600.0
PAGES = sorted(
    page for page in FOLDER.glob("*.md") if guides.blocks(page.read_text(encoding="utf-8"))
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short paths: names of Unix sockets have 107 characters at most."""
    try:
        stand_in.check()
    except stand_in.CannotStandInError as error:
        pytest.skip(f"no namespaces here, in which guides are followed: {error}")
    made = Path(tempfile.mkdtemp(prefix="guide-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def followed(text: str, folder: Path, timeout_s: float = FOLLOW_S) -> list[str]:
    asked = guides.blocks(text)
    code, said = guides.follow(asked, folder=folder, timeout_s=timeout_s)
    return guides.wrong(asked, said, code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_guide_works_as_printed(page: Path, folder: Path):
    found = followed(page.read_text(encoding="utf-8"), folder)
    assert not found, "\n\n".join(found)


FENCE = "```"
SMALL = f"""
{FENCE}sh
printf 'clusters: {{a: {{bootstrap.servers: "a:1"}}, b: {{bootstrap.servers: "b:1"}}}}\\n' > c.yaml
printf 'flows: [{{from: a, to: b}}]\\n' >> c.yaml
mm2 config check c.yaml
{FENCE}

{FENCE}text
c.yaml: 2 clusters, … a->b
{FENCE}

{FENCE}console
$ something that is nowhere
{FENCE}

{FENCE}sh
test -e c.yaml && ! test -e {mirror.ROOT.name} && echo here
{FENCE}
"""


def test_blocks_are_one_shell_in_an_empty_folder(folder):
    assert followed(SMALL, folder) == []


@pytest.mark.parametrize(
    ("old", "new", "told", "timeout_s"),
    [
        ("mm2 config check", "mm2 config chekc", "ended with 2", FOLLOW_S),
        ("c.yaml: 2 clusters, …", "c.yaml: 3 clusters, …", "is not in", FOLLOW_S),
        ("test -e c.yaml", "test -e other.yaml", "ended with 1", FOLLOW_S),
        ("mm2 config check c.yaml", "sleep 60", "ended with 124", 3.0),
        ("mm2 config check c.yaml", "false | true", "ended with 1", FOLLOW_S),
    ],
)
def test_what_does_not_work_is_seen(folder, old, new, told, timeout_s):
    assert old in SMALL
    found = followed(SMALL.replace(old, new), folder, timeout_s)
    assert any(told in each for each in found), found


def test_what_runs_on_ends_with_the_guide(folder):
    begun = f"{FENCE}sh\n(sleep 300; touch late) &\necho $! > pid\n{FENCE}\n"
    assert followed(begun, folder) == []
    still = [
        each
        for each in Path("/proc").glob("[0-9]*/cwd")
        if each.exists() and str(each.resolve()).startswith(str(folder))
    ]
    assert still == []
