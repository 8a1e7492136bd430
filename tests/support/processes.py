"""Looking at, and starting, other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def mentioning(text: str | Path) -> list[int]:
    """Ids of the processes whose command line has `text` in it; this one is left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if os.fsencode(str(text)) in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return [pid for pid in found if alive(pid)]


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


def run_mm2(
    group: str, arguments: Sequence[str], *, timeout_s: float = 100.0
) -> subprocess.CompletedProcess[str]:
    """Run one command group of the command line: `run_mm2("sandbox", ["up", "east"])`."""
    source = f"from mm2.app.cli import {group}; {group}.group(prog_name='mm2 {group}')"
    return subprocess.run(
        [sys.executable, "-c", source, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
