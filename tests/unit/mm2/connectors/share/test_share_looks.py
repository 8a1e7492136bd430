"""Looks at a share's topics on a thread of their own."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from connect_runtime.base import ids
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import clock
from mm2.connectors.share import share_looks
from mm2.connectors.topics import mirror_topics, partition_setups
from mm2.core import commands, flows
from tests.fakes import admin
from tests.support import eventually

SHARE = [ids.TopicPartition("orders", 0)]
FLOW = flows.Flow(source="A", target="B", refresh_topics_interval_s=0.05)
WAIT_S = 10.0


class Clusters:
    def __init__(self) -> None:
        self.source, self.target = admin.FakeCluster(), admin.FakeCluster()
        self.source.create("orders")
        self.target.create("A.orders")
        self.made: list[admin.FakeAdmin] = []

    def admins(self) -> tuple[admin.FakeAdmin, admin.FakeAdmin]:
        found = admin.FakeAdmin(self.source), admin.FakeAdmin(self.target)
        self.made.extend(found)
        return found


@pytest.fixture
def clusters():
    return Clusters()


@pytest.fixture
def looking(clusters):
    started: list[share_looks.ShareLooks] = []

    def start(**changed: Any) -> share_looks.ShareLooks:
        looks = share_looks.ShareLooks(
            dataclasses.replace(FLOW, **changed),
            SHARE,
            admins=clusters.admins,
            operator=commands.NOBODY,
            clock=clock.SystemClock(),
            name="mirror-0",
        )
        started.append(looks)
        looks.start()
        return looks

    yield start
    for each in started:
        each.stop()


def found(looks: share_looks.ShareLooks) -> partition_setups.SourcePlan:
    taken = eventually.eventually(looks.take, WAIT_S, lambda: looks.reason)
    assert taken is not None
    return taken


def test_what_is_found_is_taken_once_and_looked_at_again(clusters, looking):
    looks = looking()
    assert [each.name for each in found(looks).partitions] == ["orders-0"]
    assert found(looks).findings == (), "at the next interval"
    eventually.eventually(lambda: all("close" in each.calls for each in clusters.made[:4]), WAIT_S)


def test_without_an_interval_there_is_one_look(clusters, looking):
    looks = looking(refresh_topics_interval_s=None)
    found(looks)
    made = len(clusters.made)
    with pytest.raises(AssertionError):
        eventually.eventually(looks.take, 0.5)
    assert len(clusters.made) == made


def test_clusters_that_do_not_answer_are_asked_again(clusters, looking):
    clusters.target.away = True
    looks = looking()
    eventually.eventually(lambda: "asking clusters" not in looks.reason, WAIT_S)
    assert looks.failure is None
    clusters.target.away = False
    assert found(looks).partitions


def test_who_is_refused_at_first_is_told(clusters, looking):
    refusal = kafka_errors.NotAuthorizedError("asking A: not authorized")
    clusters.source.failures["cluster_id", ""] = refusal
    clusters.admins = lambda: (_ for _ in ()).throw(refusal)
    looks = looking()
    eventually.eventually(lambda: looks.failure is refusal, WAIT_S)
    assert looks.take() is None


def test_who_is_refused_later_goes_on(clusters, looking, caplog):
    looks = looking()
    found(looks)
    refusal = kafka_errors.NotAuthorizedError("asking A: not authorized")
    clusters.admins = None
    looks._admins = lambda: (_ for _ in ()).throw(refusal)
    eventually.eventually(lambda: "what is mirrored goes on" in caplog.text, WAIT_S)
    assert looks.failure is None


def test_findings_are_looked_at_again_although_nothing_else_is(clusters, looking, monkeypatch):
    monkeypatch.setattr(share_looks, "AGAIN_S", 0.05)
    monkeypatch.setattr(mirror_topics, "SPREADS_S", 0.0)
    del clusters.target.topics["A.orders"]
    looks = looking(refresh_topics_interval_s=None)
    assert found(looks).findings
    clusters.target.create("A.orders")
    eventually.eventually(lambda: found(looks).partitions, WAIT_S)


def test_an_error_of_ours_fails_the_task(clusters, looking):
    looks = share_looks.ShareLooks(
        FLOW,
        SHARE,
        admins=lambda: 1 / 0,  # type: ignore[arg-type, return-value]  # that is the error
        operator=commands.NOBODY,
        clock=clock.SystemClock(),
        name="x",
    )
    looks.start()
    eventually.eventually(lambda: looks.failure is not None, WAIT_S)
    assert "ZeroDivisionError" in str(looks.failure)
