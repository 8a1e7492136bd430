"""The zip of our own packages that travels to the executors of a cluster.

Only the rooms that a copy may import are in it: a copy that imports more fails at once, on the
first cluster that it meets, and not on the one node where a library happens to be missing.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import connect_runtime
import mm2

ROOMS = (
    "connect_runtime/api",
    "connect_runtime/base",
    "connect_runtime/system",
    "connect_runtime/wire",
    "mm2/core",
    "mm2/formats",
    "mm2/pipeline",
)
_EPOCH = (1980, 1, 1, 0, 0, 0)


def roots() -> tuple[Path, ...]:
    """The directories that hold our packages, for a Python path; one or two."""
    found = (Path(package.__path__[0]).resolve().parent for package in (mm2, connect_runtime))
    return tuple(dict.fromkeys(found))


def write(target: Path) -> Path:
    """Write the zip to `target`: the same bytes for the same sources, whenever and wherever."""
    with zipfile.ZipFile(target, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(_sources()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), source.read_bytes())
    return target


def _sources() -> list[tuple[str, Path]]:
    found = []
    for package in (mm2, connect_runtime):
        root = Path(package.__path__[0]).resolve()
        found.append((f"{root.name}/__init__.py", root / "__init__.py"))
        for path in root.rglob("*.py"):
            name = path.relative_to(root.parent).as_posix()
            if name.startswith(tuple(f"{room}/" for room in ROOMS)):
                found.append((name, path))
    return found
