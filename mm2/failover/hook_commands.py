"""Runs the operator's hook commands at certain steps of a failover, for example to switch DNS, push
configuration or restart applications."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO

from connect_runtime.base.errors import FatalError
from mm2.config.mm2_settings import HookCommand
from mm2.failover.failover_request import FailoverRequest
from mm2.failover.failover_steps import FailoverStep

MAX_OUTPUT_CHARS = 4_000
"""Maximum number of characters that are kept of a hook command's output. Longer output is truncated
at the beginning."""


HookCommands = Mapping[str, HookCommand]
"""Hook commands by step name; see `failover_steps.HOOK_STEPS`."""


def run_hook(hook: HookCommand, step: FailoverStep, *, request: FailoverRequest, flow: str) -> str:
    """Run the hook command and return the end of its output.

    The command inherits this process's environment and also receives MM2_STEP, MM2_FROM, MM2_TO and
    MM2_FLOW. Raises `FatalError` if the command fails or times out.
    """
    about = {
        "MM2_STEP": step.value,
        "MM2_FROM": request.origin,
        "MM2_TO": request.destination,
        "MM2_FLOW": flow,
    }
    doing = f"hook {step.value} ({hook.command[0]})"
    with tempfile.TemporaryFile() as output:  # a pipe would wait for the command's own children
        try:
            child = subprocess.Popen(  # noqa: S603  # the operator configures the command
                hook.command,
                env={**os.environ, **about},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise FatalError(f"{doing} cannot be run: {error}") from error
        try:
            status = child.wait(hook.timeout_s)
        except subprocess.TimeoutExpired as error:
            raise FatalError(
                f"{doing} was killed after {hook.timeout_s:g} s (timeout); last output: "
                f"{_read_output_tail(output)}"
            ) from error
        finally:
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        said = _read_output_tail(output)
    if status:
        raise FatalError(f"{doing} exited with {status}; last output: {said}")
    return said


def _read_output_tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - 4 * MAX_OUTPUT_CHARS))
    return output.read().decode(errors="replace").strip()[-MAX_OUTPUT_CHARS:]
