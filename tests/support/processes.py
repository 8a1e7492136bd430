"""Looking at, and starting, other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from connect_runtime.system import child_processes

ROOT = Path(__file__).parents[2]


def mentioning(text: str | Path) -> list[int]:
    """Ids of the processes whose command line has `text` in it; this one is left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if os.fsencode(str(text)) in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return [pid for pid in found if child_processes.is_process_alive(pid)]


def start_python(
    source: str, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a Python process that sees this repository; stdout and stderr are pipes of text."""
    return subprocess.Popen(
        [sys.executable, "-c", source, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
