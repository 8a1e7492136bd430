"""Commands of Debian packages that some tests need: found, or the test says what brings them.

`.ci/packages.txt` says which package has which command. Nothing is ever installed from here: a
test that needs one is skipped (in CI it fails), and at its end pytest names the line to type.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / ".ci" / "packages.txt"
INSTALL = "apt-get install -y --no-install-recommends"
_LACKS = re.compile(r"needs the Debian packages? ([a-z0-9.+ -]+): ")


def packages(text: str) -> dict[str, str]:
    """By command, as `.ci/packages.txt` has them: a command and its package a line."""
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return {words[0]: words[1] for words in lines if words}


def path(command: str) -> str:
    """Where it is; skips the test that asks where it is not."""
    package = packages(PACKAGES.read_text())[command]
    found = shutil.which(command)
    if found is None:
        pytest.skip(f"needs the Debian package {package}: {INSTALL} {package}")
    return found


def missing(reasons: Iterable[str]) -> list[str]:
    """The packages that are named in reasons of skipped tests, each once."""
    found = (match for reason in reasons for match in _LACKS.finditer(reason))
    return sorted({name for match in found for name in match[1].split()})


def told(reasons: Iterable[str]) -> list[str]:
    """Lines for the end of a run: what was left out, and the command that brings what it needs."""
    skipped = [reason for reason in reasons if _LACKS.search(reason)]
    names = missing(skipped)
    if not names:
        return []
    count = len(skipped)
    what = "1 test was" if count == 1 else f"{count} tests were"
    return [
        f"{what} left out for want of Debian packages. To have them run:",
        f"  {INSTALL} {' '.join(names)}",
    ]
