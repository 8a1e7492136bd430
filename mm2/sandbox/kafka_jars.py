"""The published jars that sandbox brokers run from: downloaded with Ivy, verified, cached.

A jar set is a directory in the user's cache. It is complete only if it exactly matches the sha256
list shipped with this package. Several processes may request a set concurrently. Reading 60 MB at
every start would take a quarter of a second. Therefore a stamp file next to the directory records
the sizes and modification times of the verified files.

Missing jars are downloaded from the public Maven repository with the Ivy shipped by PySpark, which
needs only Java. `$MM2_IVY_SETTINGS` may name an Ivy settings file, for example for a company's
repository. Proxies are configured in Java: `JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…`.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from xml.sax import saxutils

from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.system import (
    child_processes,
    java_installation,
    secure_file_access,
    system_clock,
)
from connect_runtime.system.child_processes import ChildProcess
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import temporary_directories
from mm2.sandbox.sandbox_errors import SandboxError

_IVY_TIMEOUT_S = 900.0
_IVY_POLL_INTERVAL_S = 0.2
_JARS_PER_PROGRESS_LINE = 20
_IVY_ERROR_LINES = 4
_IVY_ATTEMPTS = 3


def make_ivy_descriptor(modules: Sequence[str]) -> str:
    """Return an `ivy.xml` that requests Maven modules with all their dependencies."""
    lines = ['<ivy-module version="2.0">', '  <info organisation="mm2" module="sandbox"/>']
    lines.append("  <dependencies>")
    for module in modules:
        group, artifact, version = (saxutils.quoteattr(part) for part in module.split(":"))
        lines.append(
            f"    <dependency org={group} name={artifact} rev={version}"
            ' conf="default->default(*)"/>'
        )
    return "\n".join([*lines, "  </dependencies>", "</ivy-module>", ""])


def retrieve_jars(
    modules: Sequence[str],
    into: Path,
    *,
    work: Path,
    expected: int,
    report: Callable[[str], None],
) -> None:
    """Download the jars of `modules` and all their dependencies into the directory `into`, which
    Ivy creates.

    `work` is a directory for Ivy's own files. `expected` is the number of jars, used in progress
    lines. Raises `SandboxError` with the end of Ivy's output if the download fails.
    """
    descriptor = work / "ivy.xml"
    descriptor.write_text(make_ivy_descriptor(modules))
    settings = os.environ.get("MM2_IVY_SETTINGS")
    argv = [str(java_installation.find_java().program), "-jar", str(_find_ivy_jar())]
    argv += ["-settings", settings] if settings else []
    argv += ["-ivy", str(descriptor), "-cache", str(work / "cache")]
    # Some dependencies are OSGi bundles: requesting only the type jar would omit them.
    argv += ["-types", "jar", "bundle", "-retrieve", f"{into}/[artifact]-[revision].[ext]"]
    for attempt in range(1, _IVY_ATTEMPTS + 1):
        failure = _run_ivy(argv, work / "ivy.log", progress=IvyProgress(expected, report))
        if failure is None:
            return
        if attempt < _IVY_ATTEMPTS:  # completed downloads stay in Ivy's cache below `work`
            report(
                f"  the download was interrupted; starting attempt {attempt + 1} of {_IVY_ATTEMPTS}"
            )
    raise SandboxError(failure)


def _run_ivy(argv: Sequence[str], log_path: Path, *, progress: IvyProgress) -> str | None:
    """Run Ivy once. Return an error message, or None on success."""
    with log_path.open("wb") as log:
        child = child_processes.start_process(argv, output=log)
    try:
        status = _wait_for_ivy(child, log_path, progress=progress)
    finally:
        child.kill()
    return (
        None if status == 0 else _describe_ivy_failure(status, log_path.read_text(errors="replace"))
    )


class IvyProgress:
    """Converts Ivy's output to progress lines, one for every few jars; `expected` is the total
    number of jars."""

    def __init__(self, expected: int, report: Callable[[str], None]) -> None:
        self._expected = expected
        self._report = report
        self._counts = {"found ": 0, "[SUCCESSFUL ": 0}

    def process_output_line(self, line: str) -> None:
        """Process a line of Ivy's output. Report progress after every few jars and after the last
        jar."""
        for start in self._counts:
            if line.strip().startswith(start):
                self._counts[start] += 1
                self._report_progress(start, self._counts[start])

    def _report_progress(self, start: str, count: int) -> None:
        if count % _JARS_PER_PROGRESS_LINE == 0 or count == self._expected:
            done = "modules looked up" if start == "found " else "jars downloaded"
            self._report(f"  {done}: {count} of {self._expected}")


def _wait_for_ivy(child: ChildProcess, log_path: Path, *, progress: IvyProgress) -> int | None:
    """Wait for Ivy to finish. Return its exit status, or None on timeout."""
    now_s = SystemClock().now_s
    end = Deadline.after(_IVY_TIMEOUT_S, now_s=now_s())
    with log_path.open(errors="replace") as log:
        while not end.is_expired(now_s()):
            status = child.wait(_IVY_POLL_INTERVAL_S)
            for line in log:
                progress.process_output_line(line)
            if status is not None:
                return status
    return None


def _describe_ivy_failure(status: int | None, output: str) -> str:
    if status is None:
        return f"downloading the jars took longer than {_IVY_TIMEOUT_S:.0f} s"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("at ", "tried ", "--", "::"))]
    return "downloading the jars failed; Ivy's last output lines:\n  " + "\n  ".join(
        telling[-_IVY_ERROR_LINES:]
    )


def _find_ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(location, "jars").glob("ivy-*.jar")):
            return jar
    raise SandboxError("the Ivy inside PySpark was not found: pip install 'pyspark>=4.3'")


ReportProgress = Callable[[str], None]

_LOCK_TIMEOUT_S = 900.0
_STAMP_VERSION = 1
_WRITABLE_BY_OTHERS = 0o022


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """A named set of jars; `modules` are Maven coordinates `group:artifact:version`."""

    name: str
    modules: tuple[str, ...]

    def read_expected_digests(self) -> dict[str, str]:
        """Return the expected sha256 (in hex) of each file, from the list shipped with this
        package."""
        text = resources.files("mm2.sandbox").joinpath(f"{self.name}.sha256").read_text()
        pairs = (line.split() for line in text.splitlines() if line)
        return {file_name: digest for digest, file_name in pairs}


KAFKA_JARS = JarSet(
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
KAFKA_3_9_JARS = JarSet(
    name="kafka-3.9.1",
    modules=("org.apache.kafka:kafka_2.13:3.9.1", "org.slf4j:slf4j-simple:1.7.36"),
)
CONNECT_3_9_JARS = JarSet(
    name="connect-3.9.1",
    modules=(
        "org.apache.kafka:connect-runtime:3.9.1",
        "org.apache.kafka:connect-mirror:3.9.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
KAFKA_2_8_JARS = JarSet(
    name="kafka-2.8.2",
    modules=("org.apache.kafka:kafka_2.13:2.8.2", "org.slf4j:slf4j-simple:1.7.36"),
)


def ensure_jars(
    artefacts: JarSet = KAFKA_JARS,
    *,
    cache: Path | None = None,
    report: ReportProgress | None = None,
) -> Path:
    """Return the directory that contains exactly the jars of a set. Download the jars if needed.

    `report` receives progress lines (default: stderr). Raises `SandboxError` if Java or the network
    is missing, if the repository serves different files, or if other users can write to the cache.
    """
    say = print_to_stderr if report is None else report
    base = temporary_directories.find_cache_folder() if cache is None else cache
    folder = base / artefacts.name
    digests = artefacts.read_expected_digests()
    _raise_if_writable_by_others(base, folder)
    if _is_stamp_valid(folder, digests):
        return folder
    base.mkdir(parents=True, exist_ok=True, mode=0o755)
    with hold_file_lock(base / f"{artefacts.name}.lock", report=say):
        faults = _find_faulty_jars(folder, digests)
        if faults:
            _download_jars_again(artefacts, folder, faults=faults, report=say)
        _write_stamp(folder, digests)
    return folder


def _raise_if_writable_by_others(base: Path, folder: Path) -> None:
    """Raise `SandboxError` if other users can write to the cache.

    Such users could replace a jar at any time, even after it was verified.
    """
    present = [base, folder, *(folder.iterdir() if folder.is_dir() else ())]
    for path in filter(Path.exists, present):
        if secure_file_access.is_trusted_directory(path):
            continue
        owner = path.stat().st_uid
        own_folder = "set MM2_CACHE to a directory that belongs to this user"
        if owner not in (0, os.geteuid()):
            reason, remedy = f"{path} belongs to user id {owner}", own_folder
        else:
            reason = f"other users can write to {path}"
            remedy = f"{own_folder}, or run chmod -R go-w {shlex.quote(str(base))}"
        raise SandboxError(f"cannot run programs from the cache {base}: {reason}: {remedy}")


def verify_jars(folder: Path, digests: Mapping[str, str]) -> list[str]:
    """Return one line per file that does not match the sha256 list; empty if all files match."""
    present = {entry.name: entry for entry in folder.iterdir()} if folder.is_dir() else {}
    faults = [f"missing: {name}" for name in sorted(digests.keys() - present.keys())]
    faults += [
        f"not in the sha256 list: {name}" for name in sorted(present.keys() - digests.keys())
    ]
    for name in sorted(digests.keys() & present.keys()):
        if _hash_file(present[name]) != digests[name]:
            faults.append(f"altered: {name}")
    return faults


def _find_faulty_jars(folder: Path, digests: Mapping[str, str]) -> list[str]:
    """Return one line for each file that does not match the sha256 list, as `verify_jars` does.

    The jars are not read if the directory is missing (one line is returned) or if the jars have not
    changed since they were last verified (no line is returned).
    """
    if not folder.is_dir():
        return ["not downloaded yet"]
    if _is_stamp_valid(folder, digests):
        return []  # another process has just verified it
    return verify_jars(folder, digests)


def _download_jars_again(
    artefacts: JarSet, folder: Path, *, faults: list[str], report: ReportProgress
) -> None:
    report(
        f"downloading {artefacts.name} to {folder} ({_shorten_fault_list(faults)}); "
        "takes a minute or two"
    )
    fresh = Path(tempfile.mkdtemp(prefix=f".{artefacts.name}-", dir=folder.parent))
    try:
        digests = artefacts.read_expected_digests()
        try:
            retrieve_jars(
                artefacts.modules, fresh / "jars", work=fresh, expected=len(digests), report=report
            )
        except SandboxError as error:
            raise SandboxError(
                f"{error}\nYou can also provide the jars yourself: copy the files listed in "
                f"{artefacts.name}.sha256 of the package mm2.sandbox to {folder}, and try again"
            ) from error
        wrong = verify_jars(fresh / "jars", digests)
        if wrong:
            raise SandboxError(
                f"the jars downloaded for {artefacts.name} are not the expected ones "
                f"({_shorten_fault_list(wrong)}): the repository serves files that do not match "
                "the sha256 list; the downloaded files were discarded; to use another repository, "
                "set MM2_IVY_SETTINGS to an Ivy settings file"
            )
        for path in (fresh / "jars", *(fresh / "jars").iterdir()):
            path.chmod(path.stat().st_mode & ~_WRITABLE_BY_OTHERS)  # the umask may allow writing
        if folder.exists():
            folder.rename(fresh / "replaced")
        (fresh / "jars").rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    report(f"{artefacts.name} is complete: {len(digests)} jars, verified against their sha256")


def _shorten_fault_list(faults: list[str]) -> str:
    rest = len(faults) - 3
    return "; ".join(faults[:3]) + (f"; and {rest} more" if rest > 0 else "")


def _hash_file(path: Path) -> str:
    if not path.is_file():
        return "not a file"
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _get_stamp_path(folder: Path) -> Path:
    return folder.with_name(folder.name + ".verified")


def _make_stamp(folder: Path, digests: Mapping[str, str]) -> dict[str, object]:
    facts = {entry.name: entry.stat() for entry in os.scandir(folder)}
    return {
        "version": _STAMP_VERSION,
        "list": hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest(),
        "files": {name: [fact.st_size, fact.st_mtime_ns] for name, fact in sorted(facts.items())},
    }


def _is_stamp_valid(folder: Path, digests: Mapping[str, str]) -> bool:
    try:
        remembered = json.loads(_get_stamp_path(folder).read_text())
        return bool(remembered == _make_stamp(folder, digests))
    except (OSError, ValueError):
        return False


def _write_stamp(folder: Path, digests: Mapping[str, str]) -> None:
    path = _get_stamp_path(folder)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(_make_stamp(folder, digests)))
    partial.replace(path)


@contextmanager
def hold_file_lock(path: Path, *, report: ReportProgress) -> Iterator[None]:
    """Hold an exclusive file lock, which is released when this process ends."""
    with path.open("w") as handle:
        if not _try_lock_file(handle.fileno()):
            report(f"another process holds the lock {path}; waiting for it")
            if not system_clock.wait_until(
                lambda: _try_lock_file(handle.fileno()), timeout_s=_LOCK_TIMEOUT_S
            ):
                raise SandboxError(
                    f"another process has held the lock {path} for {_LOCK_TIMEOUT_S:.0f} s: stop "
                    "that process and retry"
                )
        yield


def _try_lock_file(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def print_to_stderr(line: str) -> None:
    """Print a progress line to stderr. Default value of the `report` parameters in this module."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
