"""In which order a move is done: each step is done, read back, and noted before the next begins.

The origin is closed before positions are taken, positions are taken before they are written, and
who reads is moved before who writes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from mm2.core.failover import orders


class Step(enum.Enum):
    """The value is its name in files, output and the configuration's hooks."""

    RECORD = "record"
    """The state of both clusters goes to a file."""
    EXPORT = "export"
    """What never left the cluster that is gone back to is written to a file."""
    STOP_PRODUCERS = "stop-producers"
    STOP_CONSUMERS = "stop-consumers"
    IDLE = "idle"
    """The groups have no members any more where they were."""
    AGREE = "agree"
    """Both ends are seen to hold the same, twice."""
    STOP_FLOW = "stop-flow"
    """It copies nothing more, also when nodes are started again."""
    FENCE = "fence"
    """Who still believes to copy cannot write any more."""
    LOOK_AGAIN = "look-again"
    """Positions that nobody changes any more are taken."""
    MOVE_GROUPS = "move-groups"
    VERIFY = "verify"
    """The groups' positions are read back."""
    START_CONSUMERS = "start-consumers"
    START_PRODUCERS = "start-producers"
    REPORT = "report"
    """And a last look at what came to the cluster that was left meanwhile."""


HOOKS = frozenset(
    {Step.STOP_PRODUCERS, Step.STOP_CONSUMERS, Step.START_CONSUMERS, Step.START_PRODUCERS}
)
"""Steps that are the operator's: `hooks:` says which commands do them; without one they are told
to the operator and taken as done elsewhere."""

_PLANNED_ONLY = frozenset({Step.STOP_PRODUCERS, Step.AGREE, Step.IDLE})
TEXTS: Mapping[Step, str] = {
    Step.RECORD: "write down what both clusters hold",
    Step.EXPORT: "write what {destination} holds and {origin} never got to {export}",
    Step.STOP_PRODUCERS: "stop producers on {origin}",
    Step.STOP_CONSUMERS: "stop consumers on {origin}",
    Step.IDLE: "wait until the groups have no members on {origin}",
    Step.AGREE: "wait until both ends agree, twice",
    Step.STOP_FLOW: "stop {flow}, so that it stays stopped",
    Step.FENCE: "fence its writers",
    Step.LOOK_AGAIN: "take the final positions",
    Step.MOVE_GROUPS: "write the groups' positions on {destination}",
    Step.VERIFY: "read them back",
    Step.START_CONSUMERS: "start consumers on {destination}",
    Step.START_PRODUCERS: "start producers on {destination}",
    Step.REPORT: "say what came of it",
}


def order(wanted: orders.Wanted, hooks: Sequence[str]) -> tuple[Step, ...]:
    """The steps of a move. `hooks`: names of steps that commands are given for; in an emergency,
    consumers and producers are only dealt with where there are."""
    given = frozenset(hooks)

    def takes(step: Step) -> bool:
        if step is Step.EXPORT:
            return bool(wanted.export)
        if wanted.planned:
            return True
        return step not in _PLANNED_ONLY and (step not in HOOKS or step.value in given)

    return tuple(filter(takes, Step))


def text(step: Step, wanted: orders.Wanted, flow: str, *, one_name: bool) -> str:
    """For people, without the full stop. `one_name`: topics are called the same on both clusters,
    so what is written on the one gone to is brought to the other, too."""
    said = TEXTS[step]
    if one_name and step is Step.STOP_PRODUCERS:
        said += " and on {destination}: what they write there comes to {origin}, too"
    return said.format(
        origin=wanted.origin, destination=wanted.destination, flow=flow, export=wanted.export
    )
