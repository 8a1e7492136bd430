"""What is installed: declared with bounds, locked with hashes, and nothing about where from."""

from __future__ import annotations

import pathlib
import re
import tomllib

from packaging import requirements

ROOT = pathlib.Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DECLARED = [
    requirements.Requirement(text)
    for text in (*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"])
]


def locked() -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", LOCK, flags=re.MULTILINE))


def test_every_dependency_has_an_upper_bound():
    for requirement in DECLARED:
        operators = {specifier.operator for specifier in requirement.specifier}
        assert operators & {"<", "<=", "==", "~="}, requirement


def test_the_lock_has_every_dependency_within_its_bounds():
    versions = locked()
    for requirement in DECLARED:
        name = requirement.name.lower().replace("_", "-")
        assert requirement.specifier.contains(versions[name]), requirement


def test_everything_locked_has_hashes():
    entries = re.split(r"\n(?=[a-z0-9-]+==)", LOCK)[1:]
    assert len(entries) == len(locked())
    for entry in entries:
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_the_lock_names_no_place():
    for word in ("://", "@ ", "file:", "--index", "--find-links", "/home", "/root", "/tmp"):
        assert word not in LOCK, word
