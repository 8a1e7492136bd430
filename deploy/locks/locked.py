"""What the locks of this folder name: packages with their versions and hashes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LOCKS = Path(__file__).parent
RUNTIME, BUILD = LOCKS / "runtime.lock", LOCKS / "build.lock"
DEVELOPMENT = LOCKS.parents[1] / "requirements.lock"
_ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ \\;]+)(?P<rest>.*)$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """`sha256`: of every file of this version that may be installed."""

    name: str
    version: str
    sha256: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read(lock: Path) -> Sequence[Package]:
    """By name. Raises `ValueError` for a package without a hash."""
    found: dict[str, list[str]] = {}
    versions: dict[str, str] = {}
    name = ""
    for line in lock.read_text(encoding="utf-8").splitlines():
        entry = _ENTRY.match(line)
        if entry is not None:
            name = entry["name"]
            versions[name] = entry["version"]
        if name:
            found.setdefault(name, []).extend(_HASH.findall(line))
    bare = [each for each, hashes in found.items() if not hashes]
    if bare or not found:
        raise ValueError(f"{lock}: no hash for {', '.join(bare) or 'anything'}")
    return [
        Package(name=each, version=versions[each], sha256=tuple(found[each]))
        for each in sorted(found)
    ]
