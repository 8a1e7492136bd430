"""Runs mm2's own commands as child processes, which end with this one, and after a while anyway.

What they leave behind (logs of libraries) goes with them.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence

from connect_runtime.system import polling, processes
from mm2.app import exits
from mm2.app.ui import questions

_LOOK_S = 0.05
_MODULE = "mm2.app.cli.main"
_ANSWER_BYTES_MAX = 64 * 1024 * 1024
_COMPLAINT_CHARS_MAX = 500
_ANSWERS = (exits.DONE, exits.FAILED)
"""A plan that says no-go is an answer, too."""


def run(words: Sequence[str], timeout_s: float, gone: Callable[[], bool]) -> bytes:
    """As `questions.Run`."""
    line = shlex.join(["mm2", *words])
    try:
        with tempfile.TemporaryDirectory(prefix="mm2-page-", ignore_cleanup_errors=True) as name:
            return _run(words, pathlib.Path(name), line=line, timeout_s=timeout_s, gone=gone)
    except (OSError, processes.StartError) as error:
        raise questions.CommandError(f"{line}: {error}") from error


def _run(
    words: Sequence[str],
    folder: pathlib.Path,
    *,
    line: str,
    timeout_s: float,
    gone: Callable[[], bool],
) -> bytes:
    answer, complaints = folder / "answer", folder / "complaints"
    with answer.open("wb") as output, complaints.open("wb") as errors:
        child = processes.start(
            [sys.executable, "-m", _MODULE, *words],
            output=output,
            complaints=errors,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        polling.until(
            lambda: child.poll() is not None or gone(), timeout_s=timeout_s, interval_s=_LOOK_S
        )
        status = child.poll()
        if status is None:
            child.kill()
            why = "nobody waits for it" if gone() else f"no answer within {timeout_s:g} s"
            raise questions.CommandError(f"{line} was ended: {why}")
    size = answer.stat().st_size
    if status in _ANSWERS and 0 < size <= _ANSWER_BYTES_MAX:
        return answer.read_bytes()
    said = complaints.read_text(errors="replace").strip().rpartition("\n")[2]
    raise questions.CommandError(
        f"{line} ended with {status}: {said[:_COMPLAINT_CHARS_MAX] or 'it said nothing'}"
    )
