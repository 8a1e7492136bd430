"""Defines the steps of a failover and their order.

Each step is executed, verified and recorded before the next one begins. The flow's writers are
fenced before positions are read, positions are read before they are written, and consumers move
before producers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from mm2.failover.failover_request import FailoverRequest


class FailoverStep(enum.Enum):
    """One step of a failover. The value is the step's name in the journal, the output and the
    `hooks` configuration."""

    RECORD = "record"
    """Record the state of both clusters in the journal."""
    EXPORT = "export"
    """Export the destination's records that were never replicated to the origin (failback)."""
    STOP_PRODUCERS = "stop-producers"
    """Stop the producers, either through a hook or manually."""
    STOP_CONSUMERS = "stop-consumers"
    """Stop the consumers, either through a hook or manually."""
    IDLE = "idle"
    """Wait until the groups have no members on the origin."""
    AGREE = "agree"
    """Wait until two checks in a row find equal end offsets and no lag."""
    STOP_FLOW = "stop-flow"
    """Stop the flow durably, so that restarted nodes do not run it."""
    FENCE = "fence"
    """Fence the flow's writers, including frozen and disconnected processes."""
    FINAL_POSITIONS = "final-positions"
    """Compute the final positions after the flow was stopped and fenced."""
    MOVE_GROUPS = "move-groups"
    """Write the groups' offsets on the destination."""
    VERIFY = "verify"
    """Read the groups' offsets back and compare them with the written offsets."""
    START_CONSUMERS = "start-consumers"
    """Start the consumers, either through a hook or manually."""
    START_PRODUCERS = "start-producers"
    """Start the producers, either through a hook or manually."""
    REPORT = "report"
    """Build the report of the failover, and count the records that were written to the origin after
    the final snapshot."""


HOOK_STEPS = frozenset(
    {
        FailoverStep.STOP_PRODUCERS,
        FailoverStep.STOP_CONSUMERS,
        FailoverStep.START_CONSUMERS,
        FailoverStep.START_PRODUCERS,
    }
)
"""Steps that the operator performs, or for which the operator configures a command in `hooks:`. mm2
prints a step without a command and counts it as completed."""

_PLANNED_ONLY = frozenset({FailoverStep.STOP_PRODUCERS, FailoverStep.AGREE, FailoverStep.IDLE})
STEP_TEXTS: Mapping[FailoverStep, str] = {
    FailoverStep.RECORD: "record the state of both clusters",
    FailoverStep.EXPORT: "export to {export} the records of {destination} that are not on {origin}",
    FailoverStep.STOP_PRODUCERS: "stop producers on {origin}",
    FailoverStep.STOP_CONSUMERS: "stop consumers on {origin}",
    FailoverStep.IDLE: "wait until the groups have no members on {origin}",
    FailoverStep.AGREE: "wait until both clusters have equal end offsets, checked twice",
    FailoverStep.STOP_FLOW: "stop {flow} until mm2 resume",
    FailoverStep.FENCE: "fence the writers of {flow}",
    FailoverStep.FINAL_POSITIONS: "compute the final positions",
    FailoverStep.MOVE_GROUPS: "write the groups' offsets on {destination}",
    FailoverStep.VERIFY: "read the groups' offsets back",
    FailoverStep.START_CONSUMERS: "start consumers on {destination}",
    FailoverStep.START_PRODUCERS: "start producers on {destination}",
    FailoverStep.REPORT: "report the result",
}


def order_steps(request: FailoverRequest, hooks: Sequence[str]) -> tuple[FailoverStep, ...]:
    """Return the steps of a failover in order.

    `hooks` are the names of the steps that have a hook command. In an emergency, the steps that
    stop and start consumers and producers are included only if they have a command.
    """
    given = frozenset(hooks)

    def includes_step(step: FailoverStep) -> bool:
        if step is FailoverStep.EXPORT:
            return bool(request.export)
        if request.is_planned:
            return True
        return step not in _PLANNED_ONLY and (step not in HOOK_STEPS or step.value in given)

    return tuple(filter(includes_step, FailoverStep))


def describe_step(
    step: FailoverStep, request: FailoverRequest, flow: str, *, same_names: bool
) -> str:
    """Describe a step as text that does not end with a full stop.

    If `same_names` is true, topics have the same name on both clusters, so records written on the
    destination are also replicated to the origin.
    """
    said = STEP_TEXTS[step]
    if same_names and step is FailoverStep.STOP_PRODUCERS:
        said += " and on {destination}: records written there are replicated to {origin}"
    return said.format(
        origin=request.origin, destination=request.destination, flow=flow, export=request.export
    )
