"""A node that is frozen stands still with all that it has started."""

from __future__ import annotations

import pathlib
import signal

from tests.support import eventually, mirror, processes

FAMILY = """
import subprocess, sys, time
children = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], process_group=0)
            for _ in range(2)]
print("there", flush=True)
time.sleep(60)
"""


def states(pids: list[int]) -> set[str]:
    """As in ps: T is stopped."""
    stats = [pathlib.Path(f"/proc/{pid}/stat").read_text() for pid in pids]
    return {each.rpartition(")")[2].split()[0] for each in stats}


def test_all_of_a_family_freezes_and_thaws():
    started = processes.start_python(FAMILY)
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == "there\n"
        frozen = mirror.freeze(started.pid)
        assert frozen == [started.pid, *mirror.descendants(started.pid)]
        assert len(frozen) == 3
        eventually.eventually(lambda: states(frozen) == {"T"}, 10.0)
        mirror.send(signal.SIGCONT, frozen)
        eventually.eventually(lambda: "T" not in states(frozen), 10.0)
    finally:
        mirror.send(signal.SIGKILL, [*mirror.descendants(started.pid), started.pid])
        started.communicate()
