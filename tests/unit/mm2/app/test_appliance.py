"""Another configuration for flows that never begin: nothing here needs a broker."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from connect_runtime.base import errors
from connect_runtime.wire.codec import security_settings
from mm2.app import appliance
from mm2.app.settings import differences, load, settings
from mm2.connectors import (
    change_queue,
    flow_changes,
    flow_status,
    source_connector,
    topic_refresh,
)
from mm2.core import flows

FILE = """
clusters:
  a: {bootstrap.servers: '127.0.0.1:1'}
  b: {bootstrap.servers: '127.0.0.1:1'}
  c: {bootstrap.servers: '127.0.0.1:1'}
flows:
- {from: a, to: b}
- {from: a, to: c}
spark: {engine: inline}
"""
UNUSABLE = security_settings.Security(protocol="SSL", certificate_pem="x", key_pem="x")


def read(text: str = FILE) -> settings.Settings:
    return load.parse(text, file="c.yaml", folder=pathlib.Path("/"), environment={})


@pytest.fixture
def made() -> Iterator[appliance.Appliance]:
    found = appliance.Appliance(read())
    yield found
    for each in found.flows:
        each.stop_asked.set()
        each.run(each.stop_asked)
    found.stop()


def unusable(found: settings.Settings, alias: str) -> settings.Settings:
    """Certificates that only the Kafka library refuses, when a client is made."""
    cluster = dataclasses.replace(found.clusters[alias], security=UNUSABLE)
    return dataclasses.replace(found, clusters={**found.clusters, alias: cluster}, clients={})


def test_flows_that_cannot_be_made_replace_nobody(made):
    before, there = made.settings, made.flows
    wrong = unusable(read(), "c")
    changes = differences.plan(before, wrong)
    assert [(each.flow, each.step.name) for each in changes.flows] == [("a->c", "RESTART")]
    with pytest.raises(errors.ConnectError, match="configuring a client on c"):
        made.apply(wrong, changes)
    assert made.settings is before
    assert made.flows is there
    assert [each.stop_asked.is_set() for each in there] == [False, False]


def test_a_change_that_a_flow_does_not_take_can_be_asked_for_again(made):
    first, second = made.flows
    for each in made.flows:
        each._state = flow_status.FlowState.RUNNING
        each._publish()
    for _ in range(change_queue.CHANGES_MAX):
        second.change(flow_changes.Rebudget(budgets=flows.Budgets()))
    before = made.settings
    after = read(FILE.replace("to: c", "to: c, throttle: 1MB"))
    with pytest.raises(errors.RetriableError, match="earlier changes"):
        made.apply(after, differences.plan(before, after))
    assert made.settings is before
    second._changes.close()
    made.apply(after, differences.plan(made.settings, after))
    assert made.settings.flows == after.flows
    assert second._changes.take() == flow_changes.Rebudget(budgets=after.flows[1].budgets)
    assert first._changes.empty
    for each in made.flows:
        each._state = flow_status.FlowState.PLANNING


@pytest.fixture
def threads(made, monkeypatch):
    """Those that would have begun, by name."""
    begun: dict[str, Any] = {}
    owned = SimpleNamespace(start=begun.__setitem__, stop_all=lambda timeout_s: [])
    monkeypatch.setattr(made, "_threads", owned)
    monkeypatch.setattr(appliance, "STOP_S", 0.05)
    return begun


def test_a_flow_that_has_not_ended_when_another_takes_its_place_is_told(made, threads, caplog):
    after = read(
        FILE.replace("b: {bootstrap.servers: '127.0.0.1:1'", "b: {bootstrap.servers: 'b:1'")
    )
    made.apply(after, differences.plan(made.settings, after))
    assert "a->b has not ended within 0.1 s (starting)" in caplog.text
    assert "a->c" not in caplog.text
    assert list(threads) == ["flow a->b", "topics a->b"]


def test_a_stop_during_a_reload_leaves_the_processor_to_those_who_end(made, monkeypatch):
    monkeypatch.setattr(appliance, "STOP_S", 0.1)
    asked = 0

    class Slow:
        stop_asked = made.flows[0].stop_asked
        flow = made.flows[0].flow
        status = made.flows[0].status

        @property
        def ended(self) -> bool:
            nonlocal asked
            asked += 1
            return False

    made._stopping.set()
    made._exchange([Slow()], made.flows, begin=[])
    assert asked < 20


def test_a_look_for_topics_needs_no_settings_but_those_of_its_flow(made, threads, monkeypatch):
    """It may begin while a reload that takes the flow and its clusters away is under way."""
    connects: list[Any] = []

    def keep(flow, connect, now):
        connects.append(connect)
        return SimpleNamespace(run=None)

    monkeypatch.setattr(topic_refresh, "TopicRefresh", keep)
    first = made.flows[0]
    made._start_flow(first)
    after = read(FILE.replace("- {from: a, to: b}", "").replace("  b:", "  d:"))
    made.apply(after, differences.plan(made.settings, after))
    connects[0](first.flow).close()


def test_a_flow_that_is_to_end_makes_no_more_mirrors(made, threads, monkeypatch):
    """Not at its start either, which may take its time, and in no later look."""
    asked: list[Any] = []

    def keep(flow, **given):
        asked.append(given["stopped"])
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(source_connector, "SourceConnector", keep)
    monkeypatch.setattr(
        topic_refresh,
        "TopicRefresh",
        lambda running, *, connect, now: SimpleNamespace(run=connect(running.flow)),
    )
    flow = made._make_flow(made.settings.flows[0])
    made._start_flow(flow)
    assert [each() for each in asked] == [False, False]
    flow.stop_asked.set()
    assert [each() for each in asked] == [True, True]
    flow.run(flow.stop_asked)
