"""Files, tests and test names that documents name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ACCEPTANCE = ROOT / "tests" / "ACCEPTANCE.md"
PACKAGES = ("connect_runtime", "mm2")
DOCUMENTS = (
    ACCEPTANCE,
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
)
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(
    r"(?<![\w./~-])(?:tests|mm2|connect_runtime|docs|deploy|grafana)/[\w./*-]*\w(?:::\w+)?"
)
_MODULE = re.compile(r"^(?!mm2\.properties$|mm2\.task\.)(?:mm2|connect_runtime)(?:\.[a-z_]+)+$")
_FILTER = re.compile(r"""^pytest (?P<paths>.*?) -k (?P<words>"[^"]+"|'[^']+'|\w+)$""")


def codes(text: str) -> Iterator[str]:
    for match in _CODE.finditer(text):
        yield match[1]


def missing_paths(text: str) -> list[str]:
    """Paths of the repository that do not exist, tests that a file lacks, and modules."""
    found = []
    for code in codes(text):
        for path in _PATH.findall(code):
            file, _, test = path.partition("::")
            files = list(ROOT.glob(file))
            if not files or (test and f"def {test}(" not in files[0].read_text(encoding="utf-8")):
                found.append(path)
        if _MODULE.match(code):
            file = code.replace(".", "/")
            if not (ROOT / file).is_dir() and not (ROOT / f"{file}.py").is_file():
                found.append(code)
    return found


def empty_filters(text: str) -> list[str]:
    """Commands whose `-k` has a word that none of the files before it mentions."""
    return [
        code
        for code in codes(text)
        if (match := _FILTER.match(code))
        and not all(
            any(word in text for text in _texts(match["paths"].split()))
            for word in re.findall(r"\w+", match["words"])
            if word not in ("or", "and", "not")
        )
    ]


def _texts(paths: list[str]) -> Iterator[str]:
    for each in paths:
        place = ROOT / each
        for file in [place] if place.is_file() else place.rglob("test_*.py"):
            yield file.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_that_a_document_names_exists(path):
    assert missing_paths(path.read_text(encoding="utf-8")) == []


def test_every_filter_of_acceptance_selects_tests():
    assert empty_filters(ACCEPTANCE.read_text(encoding="utf-8")) == []


def test_tests_named_without_their_folder_are_unit_tests():
    text = (ROOT / "docs" / "mirrormaker2-defects.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+/test_\w+\.py)`", text)
    assert len(named) > 40
    assert [each for each in named if not (ROOT / "tests" / "unit" / "mm2" / each).is_file()] == []


@pytest.mark.parametrize(
    "text",
    [
        "`pytest tests/system/test_gone.py`",
        "`tests/system/test_demo.py::test_gone`",
        "`mm2/config/gone.py`",
        "`mm2.config.gone`",
        "`pytest tests/unit/mm2/gone tests/unit/mm2/config`",
    ],
)
def test_what_is_not_there_is_seen(text):
    assert missing_paths(text) != []


def test_a_filter_that_selects_nothing_is_seen():
    assert empty_filters('`pytest tests/system/test_demo.py -k "proves or quite_gone"`') != []
    assert empty_filters("`pytest tests/system/test_demo.py -k proves`") == []
