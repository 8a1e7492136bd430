"""An operator's command at a step: what it is told, what it said, and how it fails."""

from __future__ import annotations

import sys

import pytest

from connect_runtime.base.errors import FatalError
from mm2.config.mm2_settings import HookCommand
from mm2.failover import hook_commands
from mm2.failover.failover_request import FailoverKind, FailoverRequest
from mm2.failover.failover_steps import FailoverStep

WANTED = FailoverRequest(origin="east", destination="west", kind=FailoverKind.PLANNED)


def run(code: str, timeout_s: float = 30.0) -> str:
    hook = HookCommand(command=(sys.executable, "-c", code), timeout_s=timeout_s)
    return hook_commands.run_hook(
        hook, FailoverStep.START_CONSUMERS, request=WANTED, flow="east->west"
    )


def test_it_is_told_what_the_move_is():
    code = "import os; print(*(os.environ[f'MM2_{n}'] for n in ('STEP', 'FROM', 'TO', 'FLOW')))"
    assert run(code) == "start-consumers east west east->west"


def test_the_end_of_what_it_says_is_kept():
    said = run(f"print('a' * {hook_commands.MAX_OUTPUT_CHARS} + 'end')")
    assert len(said) == hook_commands.MAX_OUTPUT_CHARS
    assert said.endswith("aend")


def test_its_failure_is_told_with_its_words():
    with pytest.raises(FatalError, match=r"start-consumers .* exited with 3; last output: no dns"):
        run("print('no dns'); raise SystemExit(3)")


def test_it_has_a_deadline():
    with pytest.raises(FatalError, match=r"was killed after 0\.2 s"):
        run("import time; time.sleep(60)", timeout_s=0.2)


def test_a_command_that_is_not_there_is_told():
    hook = HookCommand(command=("/no/such/command",))
    with pytest.raises(FatalError, match=r"no/such/command.* cannot be run"):
        hook_commands.run_hook(
            hook, FailoverStep.START_CONSUMERS, request=WANTED, flow="east->west"
        )
