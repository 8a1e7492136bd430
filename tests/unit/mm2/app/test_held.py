"""What operators hold of a flow's connectors, and how that is said."""

from __future__ import annotations

import pytest

from connect_runtime.core.state import cluster_config
from mm2.app import flow_plan, held
from mm2.core import holds

State = cluster_config.TargetState
RESUME = "mm2 resume x"
SOURCE, HEARTBEAT, CHECKPOINT = flow_plan.SOURCE, flow_plan.HEARTBEAT, flow_plan.CHECKPOINT


def config(**states: State) -> cluster_config.ClusterConfig:
    entries = {
        name: cluster_config.ConnectorEntry(config={"name": name}, target_state=state)
        for name, state in states.items()
    }
    return cluster_config.ClusterConfig(entries=entries)


@pytest.mark.parametrize(
    ("state", "by"),
    [
        (State.STARTED, None),
        (None, None),
        (State.PAUSED, holds.By.PAUSED),
        (State.STOPPED, holds.By.STOPPED),
    ],
)
def test_how_a_connector_is_held(state, by):
    assert held.by(config(**{SOURCE: state}), SOURCE) is by


def test_what_is_not_configured_nobody_holds():
    entry = cluster_config.ConnectorEntry(target_state=State.PAUSED)
    found = cluster_config.ClusterConfig(entries={CHECKPOINT: entry})
    assert held.by(found, CHECKPOINT) is None
    assert held.beside(cluster_config.EMPTY) == {}


def test_those_beside_the_source_connector():
    found = config(**{SOURCE: State.STOPPED, CHECKPOINT: State.PAUSED, HEARTBEAT: State.STARTED})
    assert held.beside(found) == {CHECKPOINT: holds.By.PAUSED}


def test_what_is_held_is_told_with_what_is_not_done_and_the_way_on():
    both = {HEARTBEAT: holds.By.STOPPED, CHECKPOINT: holds.By.PAUSED}
    assert held.in_words(holds.Holds(paused=True, beside=both), resume=RESUME) == [
        "MirrorCheckpointConnector is paused, by an operator: no checkpoints are made; groups that "
        "move go on where they were then. Remedy: mm2 resume x",
        "MirrorHeartbeatConnector is stopped, by an operator: no heartbeats are written to its "
        "target. Remedy: mm2 resume x",
    ]
    assert held.in_words(holds.NOTHING, resume=RESUME) == []


def test_a_pause_is_told_with_the_command_that_ends_it():
    assert held.paused_reason(RESUME) == "paused by an operator; resume with: mm2 resume x"
    told = held.paused_reason(RESUME, "task 0 failed")
    assert told == "paused by an operator; task 0 failed; resume with: mm2 resume x"


def test_of_a_flow_that_is_stopped_nothing_else_is_expected():
    beside = {CHECKPOINT: holds.By.STOPPED}
    stopped = holds.Holds(paused=True, stopped=True, beside=beside)
    assert held.in_words(stopped, resume=RESUME) == []
