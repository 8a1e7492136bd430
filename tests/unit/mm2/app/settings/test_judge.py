"""What connectors refuse is told where the file says it."""

from __future__ import annotations

from mm2.app.settings import judge, settings
from mm2.core.configs import dedicated

BASE = {
    "clusters": "a,b",
    "a.bootstrap.servers": "a:1",
    "b.bootstrap.servers": "b:1",
    "a->b.enabled": "true",
}


def test_a_file_that_connectors_take_has_no_mistakes():
    assert judge.mistakes(settings.Flat(props=BASE)) == []


def test_a_mistake_is_told_once_where_it_stands():
    given = settings.Flat(
        props={**BASE, "offset.lag.max": "many"}, places={"offset.lag.max": (5, "offset.lag.max")}
    )
    (found,) = judge.mistakes(given)
    assert (found.line, found.key) == (5, "offset.lag.max")
    assert "many" in found.text


def test_the_flows_own_value_is_told_before_the_files():
    own = "a->b.checkpoints.topic.replication.factor"
    props = {**BASE, "checkpoints.topic.replication.factor": "1", own: "0"}
    (found, *_) = judge.mistakes(settings.Flat(props=props, places={own: (6, own)}))
    assert (found.line, found.key) == (6, own)


def test_what_a_provider_says_is_not_shown():
    props = {**BASE, "offset.lag.max": "${env:X}"}
    given = settings.Flat(
        props=props,
        resolve=lambda some: {k: v.replace("${env:X}", "hunter2") for k, v in some.items()},
    )
    found = judge.mistakes(given)
    assert found
    assert "hunter2" not in "".join(each.describe("f") for each in found)


def test_flows_that_have_no_worker_are_not_judged():
    props = {**BASE, "emit.heartbeats.enabled": "false", "b->a.offset.lag.max": "many"}
    assert judge.mistakes(settings.Flat(props=props)) == []
    assert [str(each) for each in dedicated.flows(props)] == ["a->b"]
