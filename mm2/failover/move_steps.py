"""The steps of a move in order.

Each step is done, read back and recorded before the next one begins. The source is closed before
positions are read, positions are read before they are written, and consumers move before
producers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from mm2.failover.move_request import MoveRequest


class MoveStep(enum.Enum):
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


HOOK_STEPS = frozenset(
    {
        MoveStep.STOP_PRODUCERS,
        MoveStep.STOP_CONSUMERS,
        MoveStep.START_CONSUMERS,
        MoveStep.START_PRODUCERS,
    }
)
"""Steps that are the operator's: `hooks:` says which commands do them; without one they are told
to the operator and taken as done elsewhere."""

_PLANNED_ONLY = frozenset({MoveStep.STOP_PRODUCERS, MoveStep.AGREE, MoveStep.IDLE})
STEP_TEXTS: Mapping[MoveStep, str] = {
    MoveStep.RECORD: "write down what both clusters hold",
    MoveStep.EXPORT: "write what {destination} holds and {origin} never got to {export}",
    MoveStep.STOP_PRODUCERS: "stop producers on {origin}",
    MoveStep.STOP_CONSUMERS: "stop consumers on {origin}",
    MoveStep.IDLE: "wait until the groups have no members on {origin}",
    MoveStep.AGREE: "wait until both ends agree, twice",
    MoveStep.STOP_FLOW: "stop {flow}, so that it stays stopped",
    MoveStep.FENCE: "fence its writers",
    MoveStep.LOOK_AGAIN: "take the final positions",
    MoveStep.MOVE_GROUPS: "write the groups' positions on {destination}",
    MoveStep.VERIFY: "read them back",
    MoveStep.START_CONSUMERS: "start consumers on {destination}",
    MoveStep.START_PRODUCERS: "start producers on {destination}",
    MoveStep.REPORT: "say what came of it",
}


def order_steps(wanted: MoveRequest, hooks: Sequence[str]) -> tuple[MoveStep, ...]:
    """The steps of a move. `hooks`: names of steps that commands are given for; in an emergency,
    consumers and producers are only dealt with where there are."""
    given = frozenset(hooks)

    def takes(step: MoveStep) -> bool:
        if step is MoveStep.EXPORT:
            return bool(wanted.export)
        if wanted.planned:
            return True
        return step not in _PLANNED_ONLY and (step not in HOOK_STEPS or step.value in given)

    return tuple(filter(takes, MoveStep))


def describe_step(step: MoveStep, wanted: MoveRequest, flow: str, *, one_name: bool) -> str:
    """For people, without the full stop. `one_name`: topics are called the same on both clusters,
    so what is written on the one gone to is brought to the other, too."""
    said = STEP_TEXTS[step]
    if one_name and step is MoveStep.STOP_PRODUCERS:
        said += " and on {destination}: what they write there comes to {origin}, too"
    return said.format(
        origin=wanted.origin, destination=wanted.destination, flow=flow, export=wanted.export
    )
