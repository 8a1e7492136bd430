"""What becomes of a node's workers when its file is another."""

from __future__ import annotations

import pathlib

import pytest

from mm2.config import config_diff, config_loader
from mm2.config.config_diff import FlowChangeAction, ReloadPlan, WorkerChanges
from mm2.config.mm2_settings import Mm2Settings

A, B = {"group.id": "a"}, {"group.id": "b"}
Changes = WorkerChanges


@pytest.mark.parametrize(
    ("running", "wanted", "expected"),
    [
        ({}, {}, Changes()),
        ({}, {"a->b": A}, Changes(started=("a->b",))),
        ({"a->b": A}, {}, Changes(stopped=("a->b",))),
        ({"a->b": A}, {"a->b": dict(A)}, Changes(kept=("a->b",))),
        ({"a->b": A}, {"a->b": B}, Changes(stopped=("a->b",), started=("a->b",))),
        (
            {"a->b": A, "b->a": A, "c->a": A},
            {"b->a": B, "d->a": B, "a->b": A},
            Changes(kept=("a->b",), stopped=("b->a", "c->a"), started=("b->a", "d->a")),
        ),
    ],
)
def test_who_goes_on_who_ends_and_who_begins(running, wanted, expected):
    assert config_diff.plan_worker_changes(running, wanted) == expected


CLUSTERS = """clusters:
  a: {bootstrap.servers: 'a:1'}
  b: {bootstrap.servers: 'b:1'}
  c: {bootstrap.servers: 'c:1'}
flows:
"""
THERE = "- {from: a, to: b}\n"
ON = "- {from: b, to: c}\n"


def changes(read, before: str, after: str, environment=None) -> ReloadPlan:
    return config_diff.plan_config_changes(read(before, environment), read(after, environment))


def test_the_same_is_nothing(read):
    found = changes(read, CLUSTERS + THERE + ON, CLUSTERS + ON + THERE)
    assert found.is_empty
    assert found.format_lines() == ["nothing has changed"]


@pytest.mark.parametrize(
    ("key", "step", "reason"),
    [
        ("topics: 'x.*'", FlowChangeAction.TOPICS, "topics: [.*] -> [x.*]"),
        ("topics.exclude: y", FlowChangeAction.TOPICS, "topics.exclude: "),
        ("heartbeats.replication.enabled: false", FlowChangeAction.TOPICS, "heartbeats"),
        ("throttle: 20MB", FlowChangeAction.LIVE, "throttle: not set -> 20000000"),
        ("throttle.topics: ['x=1MB']", FlowChangeAction.LIVE, "throttle.topics: [] -> [x=1MB]"),
        ("groups: g", FlowChangeAction.LIVE, "groups: [.*] -> [g]"),
        ("offset.lag.max: 7", FlowChangeAction.LIVE, "offset.lag.max: 100 -> 7"),
        (
            "emit.checkpoints.enabled: false",
            FlowChangeAction.LIVE,
            "emit.checkpoints.enabled: True -> False",
        ),
        ("tasks.max: 3", FlowChangeAction.RESTART, "tasks.max: 1 -> 3"),
        ("buffer.memory: 2097152", FlowChangeAction.RESTART, "buffer.memory: "),
        ("topics: x, tasks.max: 3", FlowChangeAction.RESTART, "tasks.max: 1 -> 3"),
        (
            "source.consumer.fetch.min.bytes: 3",
            FlowChangeAction.RESTART,
            "fetch.min.bytes: not set -> 3",
        ),
    ],
)
def test_a_flow_is_changed_by_the_least_that_will_do(read, key, step, reason):
    after = THERE.replace("to: b", f"to: b, {key}")
    found = changes(read, CLUSTERS + THERE + ON, CLUSTERS + after + ON)
    (change,) = found.flows
    assert (change.flow, change.step) == ("a->b", step)
    assert any(reason in line for line in change.reasons)
    assert found.format_lines()[0] == f"a->b {step.value}"


def test_flows_come_and_go(read):
    off = ON.replace("to: c", "to: c, enabled: false")
    assert [
        each.step for each in changes(read, CLUSTERS + THERE + ON, CLUSTERS + THERE + off).flows
    ] == [FlowChangeAction.STOP]
    found = changes(read, CLUSTERS + ON, CLUSTERS + THERE)
    assert [(each.flow, each.step) for each in found.flows] == [
        ("a->b", FlowChangeAction.START),
        ("b->c", FlowChangeAction.STOP),
    ]


def test_a_cluster_that_is_reached_otherwise_restarts_its_flows(read):
    before = CLUSTERS + THERE + ON + "- {from: a, to: c}\n"
    after = before.replace("'b:1'", "'b:1,b:2'")
    found = changes(read, before, after)
    assert [(each.flow, each.step) for each in found.flows] == [
        ("a->b", FlowChangeAction.RESTART),
        ("b->c", FlowChangeAction.RESTART),
    ]
    assert "cluster b: bootstrap.servers: b:1 -> b:1,b:2" in found.flows[0].reasons


def test_a_secret_that_changed_restarts_without_being_shown(read):
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    text = CLUSTERS.replace(
        "'a:1'",
        "'a:1', security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.jaas.config: "
        f'\'{login} username="u" password="${{env:P}}";\'',
    )
    found = config_diff.plan_config_changes(
        read(text + THERE, {"P": "first-pw"}), read(text + THERE, {"P": "second-pw"})
    )
    (change,) = found.flows
    assert change.step is FlowChangeAction.RESTART
    assert change.reasons == ("secrets, or the files that contain them, have changed",)
    assert "-pw" not in "".join(found.format_lines())


def test_what_a_running_process_cannot_change_is_said(read):
    found = changes(
        read,
        CLUSTERS + THERE,
        CLUSTERS + THERE + "metrics: {port: 1}\nspark: {engine: inline, conf: {spark.x: '1'}}\n"
        "health: {replicating.within.seconds: 5}\ndrill: {report: /d}\n",
    )
    assert found.flows == ()
    assert found.format_lines() == [
        f"spark.engine: spark -> inline; {config_diff.AT_NEXT_START_TEXT}",
        f"spark.conf: not set -> {{'spark.x': '1'}}; {config_diff.AT_NEXT_START_TEXT}",
        f"metrics.port: 9464 -> 1; {config_diff.AT_NEXT_START_TEXT}",
        f"health.replicating.within.seconds: 60 -> 5; {config_diff.AT_NEXT_START_TEXT}",
        f"drill.report: not set -> /d; {config_diff.AT_NEXT_START_TEXT}",
    ]


def test_what_a_running_process_cannot_change_is_said_again(read):
    before = read(CLUSTERS + THERE)
    after = read(
        CLUSTERS + THERE.replace("to: b", "to: b, topics: x") + "metrics: {port: '${env:P}'}\n",
        {"P": "1"},
    )
    first = config_diff.plan_config_changes(before, after)
    (flow,) = first.flows
    assert flow.step is FlowChangeAction.TOPICS
    again = config_diff.plan_config_changes(
        config_diff.merge_running_settings(before, after), after
    )
    assert again.flows == ()
    assert again.restart_required == first.restart_required
    assert len(first.restart_required) == 2


def test_properties_are_compared_like_yaml(tmp_path):
    base = "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"
    before, after = (
        config_loader.parse_mm2_properties(text, file="x", folder=tmp_path, environment={})
        for text in (base, base + "a->b.topics=x\n")
    )
    (change,) = config_diff.plan_config_changes(before, after).flows
    assert (change.step, change.reasons) == (FlowChangeAction.TOPICS, ("topics: [.*] -> [x]",))


def test_another_worker_restarts_every_flow_and_its_api_waits(read):
    before = CLUSTERS + THERE + ON
    worker = "worker: {scheduled.rebalance.max.delay.ms: 7}\n"
    found = changes(read, before, before + worker + "rest: {listeners: 'http://:1'}\n")
    assert [each.step for each in found.flows] == [
        FlowChangeAction.RESTART,
        FlowChangeAction.RESTART,
    ]
    assert found.flows[0].reasons == ("worker.scheduled.rebalance.max.delay.ms: 5000 -> 7",)
    assert found.restart_required == ("rest.listeners: not set -> http://:1",)
    kept = config_diff.merge_running_settings(
        read(before), read(before + "rest: {listeners: 'http://:1'}\n")
    )
    assert kept.effective["rest"] == {}


def test_how_often_what_fails_is_started_again_is_changed_as_it_runs(read):
    before = CLUSTERS + THERE
    (change,) = changes(read, before, before + "worker: {task.restart.max: 3}\n").flows
    assert change.step is FlowChangeAction.LIVE
    assert change.reasons == ("worker.task.restart.max: not set -> 3",)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("b.task.restart.max=3", FlowChangeAction.LIVE),
        ("b.scheduled.rebalance.max.delay.ms=7", FlowChangeAction.RESTART),
    ],
)
def test_workers_of_properties_are_compared_too(tmp_path, line, step):
    base = "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"
    before, after = (
        config_loader.parse_mm2_properties(text, file="x", folder=tmp_path, environment={})
        for text in (base, f"{base}{line}\n")
    )
    (change,) = config_diff.plan_config_changes(before, after).flows
    key, _, value = line.removeprefix("b.").partition("=")
    assert (change.step, change.reasons) == (step, (f"worker.{key}: not set -> {value}",))


def test_defaults_of_properties_are_mirror_makers():
    base = """clusters = a, b
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
a->b.enabled = true
"""
    key = "emit.heartbeats.enabled"

    def read(text: str) -> Mm2Settings:
        return config_loader.parse_mm2_properties(
            text, file="mm2.properties", folder=pathlib.Path("/"), environment={}
        )

    found = config_diff.plan_config_changes(read(base), read(f"{base}a->b.{key} = false\n"))
    (change,) = found.flows
    assert change.reasons == (f"{key}: True -> False",)
    assert config_diff.plan_config_changes(read(base), read(f"{base}a->b.{key} = true\n")).is_empty
