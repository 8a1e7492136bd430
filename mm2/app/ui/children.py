"""Runs mm2's own commands as child processes, which end with this one, and after a while anyway.

What they leave behind (logs of libraries) goes with them.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import sys
import tempfile
from collections.abc import Sequence

from connect_runtime.system import processes
from mm2.app import exits
from mm2.app.ui import questions

_MODULE = "mm2.app.cli.main"
_ANSWER_BYTES_MAX = 64 * 1024 * 1024
_COMPLAINT_CHARS_MAX = 500
_ANSWERS = (exits.DONE, exits.FAILED)
"""A plan that says no-go is an answer, too."""


def run(words: Sequence[str], timeout_s: float) -> bytes:
    """As `questions.Run`."""
    line = shlex.join(["mm2", *words])
    try:
        with tempfile.TemporaryDirectory(prefix="mm2-page-", ignore_cleanup_errors=True) as name:
            return _run(words, pathlib.Path(name), line=line, timeout_s=timeout_s)
    except (OSError, processes.StartError) as error:
        raise questions.CommandError(f"{line}: {error}") from error


def _run(words: Sequence[str], folder: pathlib.Path, *, line: str, timeout_s: float) -> bytes:
    answer, complaints = folder / "answer", folder / "complaints"
    with answer.open("wb") as output, complaints.open("wb") as errors:
        child = processes.start(
            [sys.executable, "-m", _MODULE, *words],
            output=output,
            complaints=errors,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        status = child.wait(timeout_s)
        if status is None:
            child.kill()
            raise questions.CommandError(f"{line} gave no answer within {timeout_s:g} s")
    size = answer.stat().st_size
    if status in _ANSWERS and 0 < size <= _ANSWER_BYTES_MAX:
        return answer.read_bytes()
    said = complaints.read_text(errors="replace").strip().rpartition("\n")[2]
    raise questions.CommandError(
        f"{line} ended with {status}: {said[:_COMPLAINT_CHARS_MAX] or 'it said nothing'}"
    )
