"""Faults of the processes behind `mm2 run`: killed, frozen, left behind.

One run in local mode is a family: `mm2 run` (the driver's Python) -> Spark's JVM -> Spark's Python
daemon -> one process per copy.
"""

from __future__ import annotations

import enum
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from random import Random

from connect_runtime.system import child_processes
from tests.support import eventually, mirror
from tests.support.mirror import Mirror


class Kind(enum.Enum):
    DRIVER = "mm2 run"
    JVM = "driver JVM"
    DAEMON = "Spark's Python daemon"
    COPY = "copy process"


ENDS_THE_RUN = frozenset({Kind.DRIVER, Kind.JVM})
"""After these `mm2 run` has to be started again; after the others it mends itself."""


def pids(run: Mirror, kind: Kind) -> list[int]:
    match kind:
        case Kind.DRIVER:
            return [run.pid]
        case Kind.JVM:
            found = mirror.driver_jvm(run.pid)
            return [found] if found is not None else []
        case Kind.DAEMON:
            return mirror.python_daemons(run.pid)
        case Kind.COPY:
            return mirror.copy_processes(run.pid)


def kill(run: Mirror, kind: Kind, random: Random) -> int:
    """SIGKILL to one process of this kind, waiting for one to be there; returns its id."""
    found = eventually.eventually(lambda: pids(run, kind), 60.0, f"there is a {kind.value}")
    victim = random.choice(found)
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    return victim


def await_family_gone(family: Iterable[int], deadline_s: float = 15.0) -> None:
    """Nothing of a run may outlive it (frozen processes do: leave them out)."""
    watched = list(family)
    eventually.eventually(
        lambda: not any(map(child_processes.is_process_alive, watched)),
        deadline_s,
        lambda: f"gone: {[pid for pid in watched if child_processes.is_process_alive(pid)]}",
    )
