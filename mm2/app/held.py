"""What operators hold of a flow's connectors, as its group's configuration says, and in words."""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.core.state import cluster_config
from mm2.app import flow_plan
from mm2.core import commands
from mm2.core import holds as holding

_BY = {
    cluster_config.TargetState.PAUSED: holding.By.PAUSED,
    cluster_config.TargetState.STOPPED: holding.By.STOPPED,
}
_UNDONE = {
    flow_plan.HEARTBEAT: "no heartbeats are written to its target",
    flow_plan.CHECKPOINT: "no checkpoints are made; groups that move go on where they were then",
}


def by(config: cluster_config.ClusterConfig, connector: str) -> holding.By | None:
    """How an operator holds it; None: not at all, or there is no such connector."""
    state = config.target_state(connector) if config.contains(connector) else None
    return None if state is None else _BY.get(state)


def beside(config: cluster_config.ClusterConfig) -> Mapping[str, holding.By]:
    """`holds.Holds.beside`."""
    found = {name: by(config, name) for name in _UNDONE}
    return {name: each for name, each in found.items() if each is not None}


def paused_reason(resume: str, beside: str = "") -> str:
    """Of a flow that an operator paused, with the command that resumes it; `beside` is what else is
    to be said of its state."""
    return "; ".join(filter(None, ("paused by an operator", beside, f"resume with: {resume}")))


def in_words(holds: holding.Holds, *, resume: str) -> list[str]:
    """A line for each connector beside the source's that is held, with the command that resumes the
    flow; none of a flow that is stopped, where nothing else is to be expected."""
    if holds.stopped:
        return []
    way_on = commands.to_go_on(resume)
    return [
        f"{name} is {each.value}, by an operator: {_UNDONE[name]}. {way_on}"
        for name, each in sorted(holds.beside.items())
    ]
