"""What the image installs is what the tests ran with: its lock is a part of the other."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib import metadata

from packaging import requirements

from tests.support.deployed import image

LOCKS = image.DEPLOY / "locks"
FORBIDDEN = ("://", "@ ", "file:", "--index", "--find-links", "/home", "/root", "/tmp")


def entries(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    """By name: the version, and its hashes."""
    found = {}
    for block in re.split(r"\n(?=[a-z0-9])", text):
        match = re.match(r"([a-z0-9-]+)==([^ ;]+)", block)
        if match:
            hashes = frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", block))
            found[match[1]] = (match[2], hashes)
    return found


def needed(names: Iterable[str]) -> set[str]:
    """All that these packages need here, themselves included."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        wanted = requirements.Requirement(waiting.pop())
        name = wanted.name.lower().replace("_", "-")
        if name in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += metadata.requires(name) or []
    return found


def disagreements(part: str, whole: str, wanted: Iterable[str]) -> list[str]:
    """Between what is installed in the image and what was tested, and what is `wanted`."""
    here, there = entries(part), entries(whole)
    found = [f"{name}: not as tested" for name in here if here[name] != there.get(name)]
    found += [f"{name}: no hash" for name, (_, hashes) in here.items() if not hashes]
    found += [f"{name}: missing" for name in sorted(set(wanted) - set(here))]
    return found + [f"{name}: nobody needs it" for name in sorted(set(here) - set(wanted))]


PART = (LOCKS / "runtime.lock").read_text()
WHOLE = (image.ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((image.ROOT / "pyproject.toml").read_text())


def test_the_image_gets_what_was_tested_and_nothing_else():
    wanted = needed(PROJECT["project"]["dependencies"])
    assert len(wanted) > 20
    assert disagreements(PART, WHOLE, wanted) == []


def test_what_differs_is_seen():
    wanted = needed(PROJECT["project"]["dependencies"])
    assert disagreements(PART.replace("click==", "click==1"), WHOLE, wanted) == [
        "click: not as tested"
    ]
    one = re.search(r"sha256:[0-9a-f]{64}", PART)
    assert one is not None
    assert disagreements(PART.replace(one[0], f"sha256:{'0' * 64}"), WHOLE, wanted)
    assert disagreements(PART, WHOLE, {*wanted, "new"}) == ["new: missing"]
    assert disagreements(PART, WHOLE, wanted - {"rich"}) == ["rich: nobody needs it"]


def test_what_builds_is_locked_within_its_bounds():
    locked = entries((LOCKS / "build.lock").read_text())
    assert all(hashes for _, hashes in locked.values())
    asked = [
        requirements.Requirement(line)
        for line in (LOCKS / "build.in").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert set(map(str, map(requirements.Requirement, PROJECT["build-system"]["requires"]))) <= set(
        map(str, asked)
    )
    for each in asked:
        assert each.specifier.contains(locked[each.name][0]), each


def test_no_lock_names_a_place():
    for lock in LOCKS.glob("*.lock"):
        for word in FORBIDDEN:
            assert word not in lock.read_text(), (lock, word)
