"""Builds the zip of mm2's own packages that is sent to the executors of a Spark cluster.

The zip contains only the packages that a copy process may import. An import of any other package
therefore fails on every cluster, instead of only on a node where a library is missing.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import connect_runtime
import mm2

SHIPPED_PACKAGES = (
    "connect_runtime/api",
    "connect_runtime/base",
    "connect_runtime/system",
    "connect_runtime/network",
    "connect_runtime/protocol",
    "mm2/copier",
    "mm2/formats",
    "mm2/offsets",
    "mm2/suggested_commands.py",
    "mm2/unreachable_cluster.py",
    "mm2/replication",
    "mm2/topics",
)
_ZIP_TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def find_package_roots() -> tuple[Path, ...]:
    """Find the one or two directories that must be on the Python path so that the packages mm2 and
    connect_runtime can be imported."""
    found = (Path(package.__path__[0]).resolve().parent for package in (mm2, connect_runtime))
    return tuple(dict.fromkeys(found))


def write_dependency_archive(target: Path) -> Path:
    """Write the zip to `target`. The output is reproducible: the same sources yield the same
    bytes."""
    with zipfile.ZipFile(target, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(_find_sources()):
            archive.writestr(zipfile.ZipInfo(name, _ZIP_TIMESTAMP), source.read_bytes())
    return target


def _find_sources() -> list[tuple[str, Path]]:
    found = []
    for package in (mm2, connect_runtime):
        root = Path(package.__path__[0]).resolve()
        found.append((f"{root.name}/__init__.py", root / "__init__.py"))
        for path in root.rglob("*.py"):
            name = path.relative_to(root.parent).as_posix()
            if name in SHIPPED_PACKAGES or name.startswith(
                tuple(f"{each}/" for each in SHIPPED_PACKAGES)
            ):
                found.append((name, path))
    return found
