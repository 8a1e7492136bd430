"""Commands of the operator's at named steps of a move: DNS, configuration push, restarts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.base import errors
from mm2.core.failover import plan, steps

OUTPUT_CHARS_MAX = 4_000
"""Of what a command prints, so much of the end is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """`command` is run as it is, without a shell; it has `timeout_s` seconds."""

    command: tuple[str, ...]
    timeout_s: float = 300.0


Hooks = Mapping[str, Hook]
"""By the names of `steps.HOOKS`."""


def run(hook: Hook, step: steps.Step, *, wanted: plan.Wanted, flow: str) -> str:
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
    try:
        done = subprocess.run(  # noqa: S603  # it is the operator who says what to run
            hook.command,
            env={**os.environ, **about},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=hook.timeout_s,
            check=False,
        )
    except OSError as error:
        raise errors.FatalError(f"{doing} cannot be run: {error}") from error
    except subprocess.TimeoutExpired as error:
        said = _end(error.output or b"")
        raise errors.FatalError(
            f"{doing} did not end within {hook.timeout_s:g} s and was killed; it said: {said}"
        ) from error
    said = _end(done.stdout)
    if done.returncode:
        raise errors.FatalError(f"{doing} ended with {done.returncode}; it said: {said}")
    return said


def names(found: Hooks) -> Sequence[str]:
    """Of the hooks that are set, in order."""
    return sorted(found)


def _end(output: bytes) -> str:
    return output.decode(errors="replace").strip()[-OUTPUT_CHARS_MAX:]
