"""Running `tests/system/spark_process.py`: a Spark engine in a process that may be killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import copies

ROOT = Path(__file__).parents[2]


@contextmanager
def running(
    *, copies_wanted: int, slots: int, entry: str = copies.ECHO, **settings: Any
) -> Iterator[subprocess.Popen[str]]:
    """`settings` are those of Spark; the first `slots` copies run before its first answer."""
    options = {"settings": settings, "entry": entry, "copies": copies_wanted, "slots": slots}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.system.spark_process", json.dumps(options)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def answer(process: subprocess.Popen[str], line: str | None = None) -> dict[str, Any]:
    """The next answer, after sending a line (`look`, `stop first`) if one is given."""
    assert process.stdin is not None
    assert process.stdout is not None
    if line is not None:
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
    told: dict[str, Any] = json.loads(process.stdout.readline())
    return told
