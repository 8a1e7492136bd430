"""Runs mm2's own commands as child processes, which end with this one, and after a while anyway."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

from connect_runtime.system import processes
from mm2.app import exits
from mm2.app.ui import questions

_MODULE = "mm2.app.cli.main"
_ANSWER_BYTES_MAX = 64 * 1024 * 1024
_COMPLAINT_BYTES = 2_000
_ANSWERS = (exits.DONE, exits.FAILED)
"""A plan that says no-go is an answer, too."""


def run(words: Sequence[str], timeout_s: float) -> bytes:
    """As `questions.Run`."""
    line = shlex.join(["mm2", *words])
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaints:
        try:
            child = processes.start(
                [sys.executable, "-m", _MODULE, *words], output=output, complaints=complaints
            )
        except processes.StartError as error:
            raise questions.CommandError(f"{line}: {error}") from error
        status = child.wait(timeout_s)
        if status is None:
            child.kill()
            raise questions.CommandError(f"{line} gave no answer within {timeout_s:g} s")
        told = _read(output, _ANSWER_BYTES_MAX + 1)
        if status in _ANSWERS and told.strip() and len(told) <= _ANSWER_BYTES_MAX:
            return told
        said = _read(complaints, _COMPLAINT_BYTES).decode(errors="replace").strip()
        raise questions.CommandError(f"{line} ended with {status}: {said or 'it said nothing'}")


def _read(file: IO[bytes], most: int) -> bytes:
    file.seek(0)
    return file.read(most)
