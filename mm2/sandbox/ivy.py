"""Fetches jars from the public Maven repository with the Ivy that PySpark carries; needs only Java.

`$MM2_IVY_SETTINGS` may name an Ivy settings file (a company's own repository). Proxies are Java's
business: `JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from xml.sax import saxutils

from mm2.sandbox import failures, java

_TIMEOUT_S = 900.0
_REPORT_EVERY = 20


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
    argv = [str(java.find()), "-jar", str(_ivy_jar())]
    argv += ["-settings", settings] if settings else []
    argv += ["-ivy", str(descriptor), "-cache", str(work / "cache")]
    # Some dependencies are packaged as OSGi bundles: asking for jars alone leaves them out.
    argv += ["-types", "jar", "bundle", "-retrieve", f"{into}/[artifact]-[revision].[ext]"]
    with subprocess.Popen(  # noqa: S603 - java, with our own arguments
        ["timeout", f"{_TIMEOUT_S:.0f}", *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        last = deque(_watch(process.stdout, expected=expected, report=report), maxlen=12)
    if process.returncode:
        raise failures.SandboxError(_failure(process.returncode, list(last)))


def _watch(lines: Iterator[str], *, expected: int, report: Callable[[str], None]) -> Iterator[str]:
    """Pass Ivy's lines on, and report after every few modules found and jars downloaded."""
    counts = {"found": 0, "[SUCCESSFUL": 0}
    for line in lines:
        word = next((word for word in counts if line.strip().startswith(word)), None)
        if word is not None:
            counts[word] += 1
            if counts[word] % _REPORT_EVERY == 0 or counts[word] == expected:
                stage = "looked up" if word == "found" else "downloaded"
                report(f"  {stage} {counts[word]} of {expected} modules")
        if line.strip():
            yield line.strip()


def _failure(status: int, last: list[str]) -> str:
    if status == 124:
        return f"fetching the jars took longer than {_TIMEOUT_S:.0f} s"
    telling = [line for line in last if "java" not in line[:5]]
    return "fetching the jars failed; Ivy's last words:\n  " + "\n  ".join(telling)


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(location, "jars").glob("ivy-*.jar")):
            return jar
    raise failures.SandboxError("the Ivy inside PySpark was not found: pip install 'pyspark>=4.3'")
