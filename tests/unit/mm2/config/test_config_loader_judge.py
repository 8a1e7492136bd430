"""What connectors refuse is told where the file says it."""

from __future__ import annotations

from mm2.config import config_loader, dedicated_mode
from mm2.config.mm2_settings import FlatProperties

BASE = {
    "clusters": "a,b",
    "a.bootstrap.servers": "a:1",
    "b.bootstrap.servers": "b:1",
    "a->b.enabled": "true",
}


def test_a_file_that_connectors_take_has_no_mistakes():
    assert config_loader.validate_connectors(FlatProperties(props=BASE)) == []


def test_a_mistake_is_told_once_where_it_stands():
    given = FlatProperties(
        props={**BASE, "offset.lag.max": "many"},
        locations={"offset.lag.max": (5, "offset.lag.max")},
    )
    (found,) = config_loader.validate_connectors(given)
    assert (found.line, found.key) == (5, "offset.lag.max")
    assert "many" in found.text


def test_the_flows_own_value_is_told_before_the_files():
    own = "a->b.checkpoints.topic.replication.factor"
    props = {**BASE, "checkpoints.topic.replication.factor": "1", own: "0"}
    (found, *_) = config_loader.validate_connectors(
        FlatProperties(props=props, locations={own: (6, own)})
    )
    assert (found.line, found.key) == (6, own)


def test_what_a_provider_says_is_not_shown():
    props = {**BASE, "offset.lag.max": "${env:X}"}
    given = FlatProperties(
        props=props,
        resolve=lambda some: {k: v.replace("${env:X}", "hunter2") for k, v in some.items()},
    )
    found = config_loader.validate_connectors(given)
    assert found
    assert "hunter2" not in "".join(each.describe("f") for each in found)


def test_flows_that_have_no_worker_are_not_judged():
    props = {**BASE, "emit.heartbeats.enabled": "false", "b->a.offset.lag.max": "many"}
    assert config_loader.validate_connectors(FlatProperties(props=props)) == []
    assert [str(each) for each in dedicated_mode.list_flows(props)] == ["a->b"]
