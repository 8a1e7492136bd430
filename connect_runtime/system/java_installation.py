"""Finds the Java installation for Spark, the sandbox's brokers and Ivy: first in JAVA_HOME, then on
the PATH."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.base.errors import FatalError

MIN_JAVA_VERSION = 17
_VERSION_TIMEOUT_S = 30.0
_REMEDY = (
    f"install a JDK or JRE {MIN_JAVA_VERSION} or newer (Debian, Ubuntu: "
    "apt-get install openjdk-17-jre-headless) and put it on the PATH or into JAVA_HOME"
)


class JavaMissingError(FatalError):
    """Raised if no usable Java was found. The message says what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaInstallation:
    """A Java installation: its `java` program and the output of `java -version`."""

    program: Path
    banner: str


def find_java(environ: Mapping[str, str] = os.environ) -> JavaInstallation:
    """Return the Java installation to use. Raises `JavaMissingError` if there is no Java 17 or
    newer."""
    program = _find_java_program(environ)
    banner = _run_version_command(program)
    version = parse_major_version(banner)
    if version is None or version < MIN_JAVA_VERSION:
        found = f"version {version}" if version else repr(banner[:200])
        raise JavaMissingError(
            f"Java at {program} is {found}, but {MIN_JAVA_VERSION} or newer is needed: {_REMEDY}"
        )
    return JavaInstallation(program=program, banner=banner)


def parse_major_version(answer: str) -> int | None:
    """Parse Java's major version from the output of `java -version` (8 for `1.8.0_302`)."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer)
    if match is None:
        return None
    first, second = match.groups()
    return int(second) if first == "1" and second else int(first)


def _find_java_program(environ: Mapping[str, str]) -> Path:
    home = environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if program.is_file():
            return program
        raise JavaMissingError(
            f"JAVA_HOME is set to {home}, but {program} does not exist: {_REMEDY}"
        )
    found = shutil.which("java", path=environ.get("PATH"))
    if found is None:
        raise JavaMissingError(f"Java was not found: {_REMEDY}")
    return Path(found)


@functools.cache
def _run_version_command(program: Path) -> str:
    """Run `java -version` and return its output."""
    try:
        answer = subprocess.run(  # noqa: S603 - the program found above
            [str(program), "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissingError(f"running {program} -version: {error}") from error
    return answer.stderr + answer.stdout
