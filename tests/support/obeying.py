"""Typing what a halt's message says: its remedy."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from mm2 import suggested_commands
from tests.interop import java_tools
from tests.support import mirror
from tests.support.mirror import Mirror


def obey(remedy: str, *, folder: Path, worker: str = "") -> str:
    """Every command of a remedy (`suggested_commands.extract_remedy_from_message`), each of
    which must succeed; what they print.

    Kafka's tools look for an administrator's properties in `folder`. `worker` is the address of the
    Connect worker's REST API.
    """
    said = ""
    assert remedy, "no remedy"
    for line in remedy.split(" && "):
        program, *arguments = shlex.split(line)
        if program == "mm2":
            done = mirror.mm2(*arguments)
            code, told = done.returncode, done.stdout + done.stderr
        elif program == "curl":
            told_to = [
                each.replace(suggested_commands.WORKER_URL_PLACEHOLDER, worker)
                for each in arguments
            ]
            curl = [program, "-q", "-sS", "--noproxy", "*", *told_to]
            done = subprocess.run(curl, capture_output=True, text=True, timeout=60.0, check=False)
            code, told = done.returncode, done.stdout + done.stderr
        else:
            ((code, told),) = java_tools.run([line], folder=folder)
        assert code == 0, f"{line}\n{told}"
        said += told
    return said


def remedy_in_log(run: Mirror, topic: str, code: str, deadline_s: float = 90.0) -> str:
    """The same as the log has it: of a halt that may be over when `mm2 status` is run."""
    line = run.await_log(rf"{re.escape(topic)}-0 is halted: \[{code}\] .*", deadline_s)
    return suggested_commands.extract_remedy_from_message(line[0])


def remedy_of(run: Mirror, topic: str, code: str, deadline_s: float = 90.0) -> str:
    """The remedy of the halt of partition 0 of a topic, as `mm2 status` prints it."""
    run.await_stopped(topic, code, deadline_s)
    told = mirror.mm2("status", run.settings_path)
    assert told.returncode == 1, told.stdout + told.stderr
    line = re.search(rf"^  halted .*{re.escape(topic)}-0: (\[{code}\] .*)$", told.stdout, re.M)
    assert line, told.stdout
    return suggested_commands.extract_remedy_from_message(line[1])
