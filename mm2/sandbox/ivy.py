"""Fetches jars from the public Maven repository with the Ivy that PySpark carries; needs only Java.

`$MM2_IVY_SETTINGS` may name an Ivy settings file (a company's own repository). Proxies are Java's
business: `JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax import saxutils

from connect_runtime.base import deadline
from connect_runtime.system import clock, java, processes
from mm2.sandbox import failures

_TIMEOUT_S = 900.0
_LOOK_EVERY_S = 0.2
_REPORT_EVERY = 20
_LAST_LINES = 4
_ATTEMPTS = 3


def module_descriptor(modules: Sequence[str]) -> str:
    """An `ivy.xml` that asks for `group:artifact:version` coordinates with all they depend on."""
    lines = ['<ivy-module version="2.0">', '  <info organisation="mm2" module="sandbox"/>']
    lines.append("  <dependencies>")
    for module in modules:
        group, artifact, version = (saxutils.quoteattr(part) for part in module.split(":"))
        lines.append(
            f"    <dependency org={group} name={artifact} rev={version}"
            ' conf="default->default(*)"/>'
        )
    return "\n".join([*lines, "  </dependencies>", "</ivy-module>", ""])


def retrieve(
    modules: Sequence[str],
    into: Path,
    *,
    work: Path,
    expected: int,
    report: Callable[[str], None],
) -> None:
    """Put the jars of `modules` and all their dependencies into a new folder `into`.

    `work` takes Ivy's own files; `expected` is the number of jars, for the progress lines. Raises
    `SandboxError` with Ivy's last words when it fails.
    """
    descriptor = work / "ivy.xml"
    descriptor.write_text(module_descriptor(modules))
    settings = os.environ.get("MM2_IVY_SETTINGS")
    argv = [str(java.find().program), "-jar", str(_ivy_jar())]
    argv += ["-settings", settings] if settings else []
    argv += ["-ivy", str(descriptor), "-cache", str(work / "cache")]
    # Some dependencies are packaged as OSGi bundles: asking for jars alone leaves them out.
    argv += ["-types", "jar", "bundle", "-retrieve", f"{into}/[artifact]-[revision].[ext]"]
    for attempt in range(1, _ATTEMPTS + 1):
        failure = _run(argv, work / "ivy.log", progress=Progress(expected, report))
        if failure is None:
            return
        if attempt < _ATTEMPTS:  # what was downloaded stays in Ivy's cache below `work`
            report(f"  the download was interrupted; attempt {attempt + 1} of {_ATTEMPTS}")
    raise failures.SandboxError(failure)


def _run(argv: Sequence[str], log_path: Path, *, progress: Progress) -> str | None:
    """Run Ivy once; returns what went wrong."""
    with log_path.open("wb") as log:
        child = processes.start(argv, output=log)
    try:
        status = _watch(child, log_path, progress=progress)
    finally:
        child.kill()
    return None if status == 0 else _failure(status, log_path.read_text(errors="replace"))


class Progress:
    """Turns Ivy's output into a line now and then. `expected` jars, and as many modules."""

    def __init__(self, expected: int, report: Callable[[str], None]) -> None:
        self._expected = expected
        self._report = report
        self._counts = {"found ": 0, "[SUCCESSFUL ": 0}

    def feed(self, line: str) -> None:
        for start in self._counts:
            if line.strip().startswith(start):
                self._counts[start] += 1
                self._tell(start, self._counts[start])

    def _tell(self, start: str, count: int) -> None:
        if count % _REPORT_EVERY == 0 or count == self._expected:
            done = "modules looked up" if start == "found " else "jars downloaded"
            self._report(f"  {done}: {count} of {self._expected}")


def _watch(child: processes.Child, log_path: Path, *, progress: Progress) -> int | None:
    """Wait for the end of Ivy; None when it takes too long."""
    now_s = clock.SystemClock().now_s
    end = deadline.Deadline.after(_TIMEOUT_S, now_s=now_s())
    with log_path.open(errors="replace") as log:
        while not end.passed(now_s()):
            status = child.wait(_LOOK_EVERY_S)
            for line in log:
                progress.feed(line)
            if status is not None:
                return status
    return None


def _failure(status: int | None, output: str) -> str:
    if status is None:
        return f"fetching the jars took longer than {_TIMEOUT_S:.0f} s"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("at ", "tried ", "--", "::"))]
    return "fetching the jars failed; Ivy's last words:\n  " + "\n  ".join(telling[-_LAST_LINES:])


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(location, "jars").glob("ivy-*.jar")):
            return jar
    raise failures.SandboxError("the Ivy inside PySpark was not found: pip install 'pyspark>=4.3'")
