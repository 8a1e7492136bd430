"""Faults of brokers under load; the writers and the mirror have to live with them."""

from __future__ import annotations

import enum
from random import Random

from connect_runtime.system import system_clock
from mm2.sandbox.sandbox_cluster import SandboxCluster

AWAY_MAX_S = 3.0


class Kind(enum.Enum):
    RESTART = "restarted in order"
    KILL = "killed and started again"
    FREEZE = "frozen for a while"


def strike(victim: SandboxCluster, kind: Kind, random: Random) -> None:
    """Returns when the brokers serve again."""
    away_s = random.uniform(0.3, AWAY_MAX_S)
    match kind:
        case Kind.RESTART:
            victim.restart()
        case Kind.KILL:
            victim.kill()
            pause(away_s)
            victim.start()
        case Kind.FREEZE:
            victim.freeze()
            pause(away_s)
            victim.unfreeze()


def pause(seconds: float) -> None:
    """Let the fault last; nothing can be waited for meanwhile."""
    system_clock.wait_until(lambda: False, timeout_s=seconds)
