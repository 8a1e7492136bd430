"""The steps of a move in order.

Each step is executed, verified and recorded before the next one begins. The source is fenced before
positions are read, positions are read before they are written, and consumers move before
producers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from mm2.failover.move_request import MoveRequest


class MoveStep(enum.Enum):
    """A step; its value is its name in the journal, the output and the `hooks` configuration."""

    RECORD = "record"
    """Record the state of both clusters in the journal."""
    EXPORT = "export"
    """Write records that never left the destination to a file (failback)."""
    STOP_PRODUCERS = "stop-producers"
    """Stop producers: a hook, or the operator."""
    STOP_CONSUMERS = "stop-consumers"
    """Stop consumers: a hook, or the operator."""
    IDLE = "idle"
    """Wait until the groups have no members on the cluster to leave."""
    AGREE = "agree"
    """Wait until both clusters twice show equal ends and no lag."""
    STOP_FLOW = "stop-flow"
    """Stop the flow durably, so that restarted nodes do not run it."""
    FENCE = "fence"
    """Fence the flow's writers, including frozen and disconnected processes."""
    FINAL_POSITIONS = "look-again"
    """Compute the final positions, now that nothing changes them any more."""
    MOVE_GROUPS = "move-groups"
    """Write the groups' offsets on the destination."""
    VERIFY = "verify"
    """Read the groups' offsets back and compare them."""
    START_CONSUMERS = "start-consumers"
    """Start consumers: a hook, or the operator."""
    START_PRODUCERS = "start-producers"
    """Start producers: a hook, or the operator."""
    REPORT = "report"
    """Build the report, and count records written on the cluster that was left meanwhile."""


HOOK_STEPS = frozenset(
    {
        MoveStep.STOP_PRODUCERS,
        MoveStep.STOP_CONSUMERS,
        MoveStep.START_CONSUMERS,
        MoveStep.START_PRODUCERS,
    }
)
"""Steps for the operator: commands in `hooks:` execute them. Without a command, the step is printed
for the operator and counts as done."""

_PLANNED_ONLY = frozenset({MoveStep.STOP_PRODUCERS, MoveStep.AGREE, MoveStep.IDLE})
STEP_TEXTS: Mapping[MoveStep, str] = {
    MoveStep.RECORD: "record the state of both clusters",
    MoveStep.EXPORT: "export records of {destination} that never reached {origin} to {export}",
    MoveStep.STOP_PRODUCERS: "stop producers on {origin}",
    MoveStep.STOP_CONSUMERS: "stop consumers on {origin}",
    MoveStep.IDLE: "wait until the groups have no members on {origin}",
    MoveStep.AGREE: "wait until both clusters have equal ends, checked twice",
    MoveStep.STOP_FLOW: "stop {flow} until mm2 resume",
    MoveStep.FENCE: "fence the writers of {flow}",
    MoveStep.FINAL_POSITIONS: "compute the final positions",
    MoveStep.MOVE_GROUPS: "write the groups' offsets on {destination}",
    MoveStep.VERIFY: "read the groups' offsets back",
    MoveStep.START_CONSUMERS: "start consumers on {destination}",
    MoveStep.START_PRODUCERS: "start producers on {destination}",
    MoveStep.REPORT: "report the result",
}


def order_steps(request: MoveRequest, hooks: Sequence[str]) -> tuple[MoveStep, ...]:
    """Returns the steps of a move in order.

    `hooks` are the names of steps with a command. In an emergency, the steps for consumers and
    producers are included only if they have one."""
    given = frozenset(hooks)

    def takes(step: MoveStep) -> bool:
        if step is MoveStep.EXPORT:
            return bool(request.export)
        if request.is_planned:
            return True
        return step not in _PLANNED_ONLY and (step not in HOOK_STEPS or step.value in given)

    return tuple(filter(takes, MoveStep))


def describe_step(step: MoveStep, request: MoveRequest, flow: str, *, same_names: bool) -> str:
    """Describe a step without a full stop.

    `same_names`: topics have the same name on both clusters, so records written on the destination
    are replicated to the origin as well."""
    said = STEP_TEXTS[step]
    if same_names and step is MoveStep.STOP_PRODUCERS:
        said += " and on {destination}: records written there are replicated to {origin}"
    return said.format(
        origin=request.origin, destination=request.destination, flow=flow, export=request.export
    )
