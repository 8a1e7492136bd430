"""Commands of the operator's at named steps of a move: DNS, configuration push, restarts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO

from connect_runtime.base import errors
from mm2.app.settings import settings as app_settings
from mm2.core.failover import orders, steps

OUTPUT_CHARS_MAX = 4_000
"""Of what a command prints, so much of the end is kept."""


Hooks = Mapping[str, app_settings.Hook]
"""By the names of `steps.HOOKS`."""


def run(hook: app_settings.Hook, step: steps.Step, *, wanted: orders.Wanted, flow: str) -> str:
    """The end of what it printed. Raises `FatalError` where it fails or takes too long.

    Its environment is ours, and MM2_STEP, MM2_FROM, MM2_TO, MM2_FLOW.
    """
    about = {
        "MM2_STEP": step.value,
        "MM2_FROM": wanted.origin,
        "MM2_TO": wanted.destination,
        "MM2_FLOW": flow,
    }
    doing = f"hook {step.value} ({hook.command[0]})"
    with tempfile.TemporaryFile() as output:  # a pipe would wait for whoever it left behind
        try:
            child = subprocess.Popen(  # noqa: S603  # it is the operator who says what to run
                hook.command,
                env={**os.environ, **about},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise errors.FatalError(f"{doing} cannot be run: {error}") from error
        try:
            status = child.wait(hook.timeout_s)
        except subprocess.TimeoutExpired as error:
            raise errors.FatalError(
                f"{doing} did not end within {hook.timeout_s:g} s and was killed; it said: "
                f"{_end(output)}"
            ) from error
        finally:
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        said = _end(output)
    if status:
        raise errors.FatalError(f"{doing} ended with {status}; it said: {said}")
    return said


def _end(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - 4 * OUTPUT_CHARS_MAX))
    return output.read().decode(errors="replace").strip()[-OUTPUT_CHARS_MAX:]
