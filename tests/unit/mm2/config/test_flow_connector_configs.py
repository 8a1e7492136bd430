"""What each flow runs with, out of a file."""

from __future__ import annotations

import pathlib

import pytest

from connect_runtime.config.config_errors import SettingsError
from mm2.config import config_loader, flow_connector_configs
from mm2.config.flow_connector_configs import FlowPlan, FlowSelection
from mm2.config.mm2_settings import Mm2Settings

BASE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
"""


def read(*lines: str) -> Mm2Settings:
    text = BASE + "\n".join(lines)
    return config_loader.parse_mm2_properties(
        text, file="mm2", folder=pathlib.Path("/"), environment={}
    )


def plans(*lines: str, choice: FlowSelection = flow_connector_configs.ALL_FLOWS) -> list[FlowPlan]:
    return flow_connector_configs.plan_flows(read(*lines), choice, environment={})


def test_a_flow_that_mirrors_is_shown_and_its_way_back_is_there_for_heartbeats():
    there, back = plans()
    assert (there.name, there.replicates_topics) == ("a->b", True)
    assert (back.name, back.replicates_topics) == ("b->a", False)
    assert there.worker.membership.group_id == "a-mm2"
    assert list(there.connectors) == [
        flow_connector_configs.SOURCE_CONNECTOR,
        flow_connector_configs.HEARTBEAT_CONNECTOR,
        flow_connector_configs.CHECKPOINT_CONNECTOR,
    ]


def test_only_flows_that_are_chosen():
    assert [each.name for each in plans(choice=FlowSelection(target_aliases=("b",)))] == ["a->b"]
    assert [each.name for each in plans(choice=FlowSelection(names=("b->a",)))] == ["b->a"]


@pytest.mark.parametrize(("line", "most"), [("", "5"), ("throttle=2MB", "5"), ("", "")])
def test_the_command_lines_limit_is_the_most(line, most):
    (plan, _) = plans(line, choice=FlowSelection(throttle=int(most or 0) * 1_000_000))
    expected = {("", "5"): "5000000", ("throttle=2MB", "5"): "2000000"}.get((line, most))
    assert plan.connectors[flow_connector_configs.SOURCE_CONNECTOR].get("throttle") == expected


def test_that_java_has_stopped_is_said_on_the_command_line_alone():
    in_file = ("java.stopped.cleanly=true", "a->b.java.stopped.cleanly=true")
    (plan, _) = plans(*in_file)
    assert "java.stopped.cleanly" not in plan.connectors[flow_connector_configs.SOURCE_CONNECTOR]
    (plan, _) = plans(choice=FlowSelection(java_stopped=True))
    assert (
        plan.connectors[flow_connector_configs.SOURCE_CONNECTOR]["java.stopped.cleanly"] == "true"
    )


def test_what_is_ours_or_javas_alone_is_kept_from_the_worker():
    given = ("b.exactly.once.source.support=enabled", "task.restart.max=3", "tasks.max=7")
    (plan, _) = plans(*given, "errors.tolerance=all")
    assert plan.restart_max == 3
    ours = {"exactly.once.source.support", "task.restart.max", "tasks.max"}
    assert not ours & plan.worker_props.keys()
    assert plan.connectors[flow_connector_configs.SOURCE_CONNECTOR]["tasks.max"] == "7"
    assert "errors.tolerance" not in plan.connectors[flow_connector_configs.SOURCE_CONNECTOR]
    assert plans()[0].restart_max == flow_connector_configs.DEFAULT_RESTART_MAX


@pytest.mark.parametrize("wrong", ["many", "-2"])
def test_a_wrong_number_of_restarts_is_told_where_it_stands(wrong):
    with pytest.raises(SettingsError) as caught:
        plans(f"task.restart.max={wrong}")
    (found,) = caught.value.problems
    assert (found.line, found.key) == (5, "task.restart.max")


def test_nodes_reach_each_other_where_the_file_says_so():
    assert flow_connector_configs.plan_rest_server(read(), environment={}) is None
    found = flow_connector_configs.plan_rest_server(
        read("dedicated.mode.enable.internal.rest=true", "listeners=http://127.0.0.1:0"),
        environment={},
    )
    assert found is not None
    assert [str(each) for each in found.settings.listeners] == ["http://127.0.0.1:0"]


def test_where_a_node_copies_is_no_property_of_its_workers():
    """Tasks would read it as a Connect worker's own choice; a node's data plane is the file's."""
    (there, *_) = plans("mm2.spark.engine = inline", "mm2.spark.conf.spark.executor.memory = 1g")
    for props in (there.worker_props, there.worker.config.raw, *there.connectors.values()):
        assert not [key for key in props if key.startswith("mm2.spark.")]
