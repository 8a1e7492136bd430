"""Typing what a stopped partition's message says."""

from __future__ import annotations

import shlex

from tests.support import mirror


def obey(command: str) -> None:
    """`mm2 resume`, as a log line ends with it (`commands.found_in`); the flow must rest."""
    first = command.split(" && ")[0].split(" (")[0]
    program, *arguments = shlex.split(first)
    assert (program, arguments[0]) == ("mm2", "resume"), command
    done = mirror.mm2(*arguments)
    assert done.returncode == 0, done.stderr
