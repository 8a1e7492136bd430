"""The published jars that sandbox brokers run from, kept in the user's cache.

A set of jars is a folder that is complete only when the sha256 list shipped with this package holds
exactly: nothing missing, nothing extra, nothing altered. `ivy.py` fetches it; several processes may
ask at once. Reading 60 MB on every start would cost a quarter of a second, so a stamp beside the
folder remembers the sizes and times of the files that were verified.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from connect_runtime.system import polling, private_folder
from mm2.sandbox import failures, folders, ivy

Report = Callable[[str], None]

_LOCK_TIMEOUT_S = 900.0
_STAMP_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtefactSet:
    """Jars that belong together. `modules` are Maven coordinates `group:artifact:version`."""

    name: str
    modules: tuple[str, ...]

    def digests(self) -> dict[str, str]:
        """sha256 in hex by file name, from the list that is shipped with this package."""
        text = resources.files("mm2.sandbox").joinpath(f"{self.name}.sha256").read_text()
        pairs = (line.split() for line in text.splitlines() if line)
        return {file_name: digest for digest, file_name in pairs}


KAFKA = ArtefactSet(
    name="kafka-4.3.1",
    modules=(
        "org.apache.kafka:kafka_2.13:4.3.1",
        "org.apache.kafka:kafka-tools:4.3.1",
        "org.apache.kafka:connect-runtime:4.3.1",
        "org.apache.kafka:connect-mirror:4.3.1",
        "org.apache.kafka:connect-file:4.3.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
KAFKA_3_9 = ArtefactSet(
    name="kafka-3.9.1",
    modules=("org.apache.kafka:kafka_2.13:3.9.1", "org.slf4j:slf4j-simple:1.7.36"),
)
CONNECT_3_9 = ArtefactSet(
    name="connect-3.9.1",
    modules=(
        "org.apache.kafka:connect-runtime:3.9.1",
        "org.apache.kafka:connect-mirror:3.9.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
KAFKA_2_8 = ArtefactSet(
    name="kafka-2.8.2",
    modules=("org.apache.kafka:kafka_2.13:2.8.2", "org.slf4j:slf4j-simple:1.7.36"),
)


def jars(
    artefacts: ArtefactSet = KAFKA, *, cache: Path | None = None, report: Report | None = None
) -> Path:
    """Return the folder with exactly the jars of a set, fetching them if need be.

    `report` gets progress lines (default: stderr). Raises `SandboxError`: no Java, no network, a
    repository that serves other bytes than ours.
    """
    say = to_stderr if report is None else report
    base = folders.cache() if cache is None else cache
    folder = base / artefacts.name
    digests = artefacts.digests()
    if _stamp_holds(folder, digests):
        return folder
    base.mkdir(parents=True, exist_ok=True)
    with locked(base / f"{artefacts.name}.lock", say=say):
        faults = _faults(folder, digests)
        if faults:
            _refetch(artefacts, folder, faults=faults, report=say)
        _write_stamp(folder, digests)
    return folder


def verify(folder: Path, digests: Mapping[str, str]) -> list[str]:
    """What differs between a folder and a sha256 list, one line per file; empty when it holds."""
    present = {entry.name: entry for entry in folder.iterdir()} if folder.is_dir() else {}
    faults = [f"missing: {name}" for name in sorted(digests.keys() - present.keys())]
    faults += [f"not on our list: {name}" for name in sorted(present.keys() - digests.keys())]
    for name in sorted(digests.keys() & present.keys()):
        if _sha256(present[name]) != digests[name]:
            faults.append(f"altered: {name}")
    return faults


def _faults(folder: Path, digests: Mapping[str, str]) -> list[str]:
    """Like `verify`, but at once for the two cases that need no reading."""
    if not folder.is_dir():
        return ["it is not there yet"]
    if _stamp_holds(folder, digests):
        return []  # another process has just verified it
    return verify(folder, digests)


def _refetch(artefacts: ArtefactSet, folder: Path, *, faults: list[str], report: Report) -> None:
    report(
        f"fetching {artefacts.name} into {folder} ({_listed(faults)}); this takes a minute or two"
    )
    fresh = Path(tempfile.mkdtemp(prefix=f".{artefacts.name}-", dir=folder.parent))
    try:
        digests = artefacts.digests()
        try:
            ivy.retrieve(
                artefacts.modules, fresh / "jars", work=fresh, expected=len(digests), report=report
            )
        except failures.SandboxError as error:
            raise failures.SandboxError(
                f"{error}\nThe jars can also be put there by hand: fill {folder} with the files "
                f"that {artefacts.name}.sha256 in the package mm2.sandbox names, and try again"
            ) from error
        wrong = verify(fresh / "jars", digests)
        if wrong:
            raise failures.SandboxError(
                f"the jars fetched for {artefacts.name} are not the expected ones "
                f"({_listed(wrong)}): the repository serves other files than those on our sha256 "
                "list; nothing was kept"
            )
        if folder.exists():
            folder.rename(fresh / "replaced")
        (fresh / "jars").rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    report(f"{artefacts.name} is complete: {len(digests)} jars, each checked against its sha256")


def _listed(faults: list[str]) -> str:
    rest = len(faults) - 3
    return "; ".join(faults[:3]) + (f"; and {rest} more" if rest > 0 else "")


def _sha256(path: Path) -> str:
    if not path.is_file():
        return "not a file"
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _stamp_path(folder: Path) -> Path:
    return folder.with_name(folder.name + ".verified")


def _stamp(folder: Path, digests: Mapping[str, str]) -> dict[str, object]:
    facts = {entry.name: entry.stat() for entry in os.scandir(folder)}
    return {
        "version": _STAMP_VERSION,
        "list": hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest(),
        "files": {name: [fact.st_size, fact.st_mtime_ns] for name, fact in sorted(facts.items())},
    }


def _stamp_holds(folder: Path, digests: Mapping[str, str]) -> bool:
    """False also where another user could have written both the stamp and the jars."""
    try:
        if not all(map(private_folder.is_trusted, (folder, folder.parent))):
            return False
        remembered = json.loads(_stamp_path(folder).read_text())
        return bool(remembered == _stamp(folder, digests))
    except (OSError, ValueError):
        return False


def _write_stamp(folder: Path, digests: Mapping[str, str]) -> None:
    path = _stamp_path(folder)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(_stamp(folder, digests)))
    partial.replace(path)


@contextmanager
def locked(path: Path, *, say: Report) -> Iterator[None]:
    """Hold a file lock; it goes away with the process that holds it."""
    with path.open("w") as handle:
        if not _try_lock(handle.fileno()):
            say(f"another process holds {path}; waiting for it")
            if not polling.until(lambda: _try_lock(handle.fileno()), timeout_s=_LOCK_TIMEOUT_S):
                raise failures.SandboxError(
                    f"another process has held {path} for {_LOCK_TIMEOUT_S:.0f} s: end it and retry"
                )
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def to_stderr(line: str) -> None:
    """The default way to report progress."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
