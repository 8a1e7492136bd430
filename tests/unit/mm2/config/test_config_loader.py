"""Policies and filters that are classes of the user's, in both forms of file."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any, cast

import pytest

from connect_runtime.config.config_errors import SettingsError
from mm2.config import config_diff, config_loader, flow_connector_configs
from mm2.config.config_diff import FlowChangeAction
from mm2.config.flow_connector_configs import FlowSelection
from mm2.config.mm2_settings import Mm2Settings
from mm2.status import topic_explanation
from mm2.topics import topic_selection
from mm2.topics.flow_config import TargetTopicAccess
from tests.support import own_classes

OWN = own_classes.NAME
BASE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
"""


def given(**more: Any) -> dict[str, Any]:
    flow = {"from": "a", "to": "b", "replication.factor": 1, **more}
    return {
        "clusters": {name: {"bootstrap.servers": f"{name}:1"} for name in "ab"},
        "flows": [flow],
    }


def read(tree: dict[str, Any]) -> Mm2Settings:
    text = json.dumps(tree, indent=1)
    return config_loader.parse_clusters_yaml(
        text, file="f.yaml", folder=pathlib.Path("/"), environment={}
    )


def read_properties(*lines: str) -> Mm2Settings:
    text = BASE + "\n".join(lines)
    return config_loader.parse_mm2_properties(
        text, file="f", folder=pathlib.Path("/"), environment={}
    )


ALL = {
    "replication.policy.class": f"{OWN}:Dashes",
    "topic.filter.class": f"{OWN}:Suffixes",
    "group.filter.class": f"{OWN}:Suffixes",
    "config.property.filter.class": f"{OWN}:OnlyRetention",
    "wanted.suffix": "orders",
}


def must_be_theirs(found: Mm2Settings) -> None:
    (flow,) = found.flows
    assert flow.format_remote_topic("orders") == "from-a-orders"
    taken = [
        each
        for each in ("orders", "new-orders", "x")
        if topic_selection.should_replicate_topic(flow, each)
    ]
    assert taken == ["orders", "new-orders"]
    assert (flow.groups.matches("my-orders"), flow.groups.matches("x")) == (True, False)
    assert flow.config_filter.should_replicate_config_property("retention.ms")
    assert not flow.config_filter.should_replicate_config_property("cleanup.policy")
    assert flow.target_topics is TargetTopicAccess.EXCLUSIVE
    (plan,) = flow_connector_configs.plan_flows(
        found, FlowSelection(names=("a->b",)), environment={}
    )
    assert ALL.items() <= plan.connectors[flow_connector_configs.SOURCE_CONNECTOR].items()
    assert list(topic_explanation.explain_topic(found, [], "x").format_lines()) == [
        "a->b: x is not replicated: the filter class tests.support.own_classes.Suffixes for topics "
        "rejects x"
    ]


def test_a_flow_in_yaml_is_as_the_users_classes_say():
    found = read(given(**ALL))
    must_be_theirs(found)
    (shown,) = cast(list[dict[str, str]], found.effective["flows"])
    assert ALL.items() <= shown.items()


def test_they_may_stand_in_the_defaults_with_their_keys():
    tree = given()
    tree["defaults"] = ALL
    must_be_theirs(read(tree))


def test_a_flow_in_properties_is_as_the_users_classes_say():
    found = read_properties(*(f"a->b.{key}={value}" for key, value in ALL.items()))
    must_be_theirs(found)
    assert not [line for line in found.format_warnings() if "suffix" in line or "class" in line]


def test_at_the_top_of_properties_they_hold_for_all_flows():
    found = read_properties(
        *(f"{key}={value}" for key, value in ALL.items() if key != "wanted.suffix"),
        "a->b.wanted.suffix=orders",
        "replication.policy.mine=1",
        "emit.heartbeats.enabled=false",
    )
    must_be_theirs(found)
    assert not [line for line in found.format_warnings() if "mine" in line or "suffix" in line]


def test_short_names_of_shipped_filters_are_javas():
    found = read(given(**{"topic.filter.class": "DefaultTopicFilter", "topics": ["x"]}))
    (plan,) = flow_connector_configs.plan_flows(
        found, FlowSelection(names=("a->b",)), environment={}
    )
    assert plan.connectors[flow_connector_configs.SOURCE_CONNECTOR]["topic.filter.class"] == (
        "org.apache.kafka.connect.mirror.DefaultTopicFilter"
    )
    assert topic_selection.should_replicate_topic(found.flows[0], "x")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("topic.filter.class", "no.such:Thing", "class no.such:Thing does not exist: No module"),
        ("topic.filter.class", f"{OWN}:Nobody", "has no attribute 'Nobody'"),
        (
            "topic.filter.class",
            f"{OWN}:Fails",
            "creating an instance failed: RuntimeError: out of paper",
        ),
        (
            "topic.filter.class",
            f"{OWN}:OnlyRetention",
            "the class has no method should_replicate_topic",
        ),
        ("group.filter.class", "broken_module:Filter", "cannot be imported: SyntaxError"),
        (
            "replication.policy.class",
            f"{OWN}:Suffixes",
            "the class has no method format_remote_topic",
        ),
        ("replication.policy.class", "Mine", "or a Python class: package.module:Class"),
        ("topic.filter.class", "org.apache.kafka.connect.mirror.X", "or a Python class"),
    ],
)
def test_what_is_wrong_with_a_class_is_told_at_its_place(tmp_path, monkeypatch, key, value, words):
    (tmp_path / "broken_module.py").write_text("class Filter(:\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(SettingsError) as caught:
        read(given(**{key: value}))
    (problem,) = caught.value.problems
    assert words in problem.describe("f")
    assert (problem.line, problem.key) == (15, f"flows[0].{key}")
    with pytest.raises(SettingsError) as caught:
        read_properties(f"a->b.{key}={value}")
    (problem,) = caught.value.problems
    assert words in problem.describe("f")
    assert (problem.line, problem.key) == (5, f"a->b.{key}")


def test_without_a_class_of_the_users_unknown_keys_are_mistakes():
    with pytest.raises(SettingsError, match=r"wanted\.suffix: is not a known key"):
        read(given(**{"wanted.suffix": "x"}))
    with pytest.raises(SettingsError, match=r"errors\.tolerance: is not supported yet"):
        read(given(**ALL, **{"errors.tolerance": "all"}))


def test_a_policy_that_keeps_names_is_looked_at_as_one():
    tree = given(**{"replication.policy.class": f"{OWN}:Keeps"})
    assert read(tree).flows[0].target_topics is TargetTopicAccess.SHARED
    tree["clusters"]["c"] = {"bootstrap.servers": "c:1"}
    tree["flows"] += [{**tree["flows"][0], "from": one, "to": to} for one, to in ("bc", "ca")]
    with pytest.raises(SettingsError, match="form a replication loop"):
        read(tree)


def test_the_same_classes_are_no_change_and_others_are():
    before, after = read(given(**ALL)), read(given(**ALL))
    assert config_diff.plan_config_changes(before, after).is_empty
    other = read(given(**{**ALL, "wanted.suffix": "x"}))
    (change,) = config_diff.plan_config_changes(before, other).flows
    assert change.reasons == ("wanted.suffix: orders -> x",)


STAMP = {
    "transforms": "stamp",
    "transforms.stamp.type": f"{OWN}:Stamp",
    "transforms.stamp.stamp": "new ",
}


def must_transform(found: Mm2Settings) -> None:
    (plan,) = flow_connector_configs.plan_flows(
        found, FlowSelection(names=("a->b",)), environment={}
    )
    assert STAMP.items() <= plan.connectors[flow_connector_configs.SOURCE_CONNECTOR].items()
    assert not STAMP.keys() & plan.connectors[flow_connector_configs.CHECKPOINT_CONNECTOR].keys()
    assert not [line for line in found.format_warnings() if "transforms" in line]


def test_transforms_are_the_mirrors_in_both_forms():
    must_transform(read(given(**STAMP)))
    tree = given()
    tree["defaults"] = STAMP
    must_transform(read(tree))
    must_transform(read_properties(*(f"a->b.{key}={value}" for key, value in STAMP.items())))


def test_settings_of_transforms_at_the_top_of_properties_reach_nobody_as_in_java():
    with pytest.raises(SettingsError) as caught:
        read_properties(*(f"{key}={value}" for key, value in STAMP.items()))
    assert "transforms.stamp.type is missing" in str(caught.value)
    found = read_properties("transforms.stamp.stamp=x")
    assert any("use A->B.transforms.stamp.stamp" in line for line in found.format_warnings())


def test_what_is_wrong_with_a_transform_is_told_at_its_place():
    with pytest.raises(SettingsError) as caught:
        read(given(**STAMP | {"transforms.stamp.type": "no.such:Thing"}))
    (problem,) = caught.value.problems
    assert (problem.line, problem.key) == (16, "flows[0].transforms.stamp.type")
    assert "class no.such:Thing does not exist" in problem.text
    with pytest.raises(SettingsError) as caught:
        read_properties("a->b.transforms=stamp", "a->b.transforms.stamp.type=no.such:Thing")
    (problem,) = caught.value.problems
    assert (problem.line, problem.key) == (6, "a->b.transforms.stamp.type")


def test_another_transform_restarts_its_flow():
    (change,) = config_diff.plan_config_changes(read(given()), read(given(**STAMP))).flows
    assert change.step is FlowChangeAction.RESTART
