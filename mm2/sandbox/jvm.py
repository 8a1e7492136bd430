"""Command lines of the Java programs that run from the sandbox's jars."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from connect_runtime.system import java

TEST_FLAGS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Quick to start, small, and only the first compiler: for tests."""
BENCH_FLAGS = ("-Xmx1g", "-XX:+UseG1GC")
"""As a production broker runs, but for the heap: for measurements."""


def command(
    main_class: str,
    *arguments: str,
    jars: Path,
    flags: tuple[str, ...] = TEST_FLAGS,
    classes: Sequence[Path] = (),
) -> list[str]:
    """Run `main_class` with every jar of a folder on its class path; it logs to stderr.

    `classes` are folders of classes, behind the jars.
    """
    return [
        str(java.find().program),
        *flags,
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-cp",
        os.pathsep.join([f"{jars}/*", *map(str, classes)]),
        main_class,
        *arguments,
    ]
