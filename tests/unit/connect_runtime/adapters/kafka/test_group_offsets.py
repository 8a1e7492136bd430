"""What a coordinator does not answer at once is asked again; what it refuses is told."""

from __future__ import annotations

import random
import threading
from collections import deque
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from connect_runtime.adapters.kafka import group_offsets
from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.ports import clients
from connect_runtime.system import clock, threads
from connect_runtime.wire.connection import cluster, poller
from tests.support import scripted_broker

T0 = ids.TopicPartition("t", 0)
LOST = object()
WAIT_S = 20.0


class Coordinator:
    """A broker that answers with the error codes in `codes`, then with none."""

    def __init__(self) -> None:
        self.codes: deque[Any] = deque()
        self.loop = poller.Poller()
        self.broker = scripted_broker.ScriptedBroker(self.loop)
        for api in ("delete_groups", "offset_commit", "offset_delete", "offset_fetch"):
            self.broker.scripts[api] = self.answer
        self.broker.scripts["find_coordinator"] = self.tell_coordinator

    def move(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.loop.poll(0.01)
        self.broker.close()
        self.loop.close()

    def asked(self) -> list[str]:
        apis = [each.api for each in self.broker.asked]
        return [each for each in apis if each.startswith(("offset", "delete", "find"))]

    def tell_coordinator(self, asked: scripted_broker.Asked) -> None:
        found = asked.module.Coordinator(
            key="g",
            node_id=1,
            host="127.0.0.1",
            port=self.broker.port,
            error_code=ErrorCode.none,
            error_message=None,
        )
        asked.answer(asked.response(throttle_time=scripted_broker.NO_TIME, coordinators=(found,)))

    def answer(self, asked: scripted_broker.Asked) -> None:
        code = self.codes.popleft() if self.codes else 0
        if code is LOST:
            asked.link.close()
            return
        m, error = asked.module, ErrorCode(code)
        one = {"partition_index": 0, "error_code": error}
        fields: dict[str, Any]
        match asked.api:
            case "delete_groups":
                fields = {"results": (m.DeletableGroupResult(group_id="g", error_code=error),)}
            case "offset_commit":
                each = m.OffsetCommitResponsePartition(**one)
                topic = m.OffsetCommitResponseTopic(name="t", partitions=(each,))
                fields = {"topics": (topic,)}
            case "offset_delete":
                fields = {"topics": (), "error_code": code}
            case _:
                each = m.OffsetFetchResponsePartition(committed_offset=5, metadata="", **one)
                topic = m.OffsetFetchResponseTopic(name="t", partitions=(each,))
                fields = {"topics": (topic,), "error_code": 0}
        asked.answer(asked.response(throttle_time=scripted_broker.NO_TIME, **fields))


@pytest.fixture
def coordinator():
    made = Coordinator()
    failed: list[Any] = []
    running = threads.Threads(on_unasked_end=failed.append)
    running.start("coordinator", made.move)
    yield made
    assert running.stop_all(5.0) == []
    assert failed == []


@pytest.fixture
def offsets(coordinator):
    settings = cluster.ConnectionSettings(
        bootstrap=(coordinator.broker.address,),
        retry_backoff_s=0.01,
        reconnect_backoff_s=0.01,
        client_id="me",
    )
    made = group_offsets.KafkaGroupOffsets(
        settings, clock=clock.SystemClock(), rng=random.Random(1)
    )
    yield made
    made.close()


def asking(offsets):
    return {
        "offset_fetch": lambda: offsets.fetch("g", WAIT_S),
        "offset_commit": lambda: offsets.commit("g", {T0: 5}, WAIT_S),
        "offset_delete": lambda: offsets.forget("g", [T0], WAIT_S),
        "delete_groups": lambda: offsets.delete("g", WAIT_S),
    }


def test_each_is_one_question(coordinator, offsets):
    for ask in asking(offsets).values():
        ask()
    assert coordinator.asked() == ["find_coordinator", *asking(offsets)]
    assert offsets.fetch("g", WAIT_S) == {T0: 5}


@pytest.mark.parametrize("api", list(asking(None)))
@pytest.mark.parametrize(
    ("codes", "lookups"),
    [((14, 27), 1), ((16,), 2), ((15, 16), 3), ((LOST,), 2)],
)
def test_what_passes_is_asked_again_where_it_must_be(coordinator, offsets, api, codes, lookups):
    coordinator.codes.extend(codes)
    asking(offsets)[api]()
    assert coordinator.asked().count(api) == len(codes) + 1
    assert coordinator.asked().count("find_coordinator") == lookups


@pytest.mark.parametrize(
    ("api", "code", "kind"),
    [
        ("offset_fetch", 30, kafka_errors.NotAuthorizedError),
        ("offset_commit", 3, kafka_errors.TopicMissingError),
        ("offset_commit", 25, clients.GroupInUseError),
        ("offset_delete", 86, clients.GroupInUseError),
        ("offset_delete", 69, errors.FatalError),
        ("delete_groups", 68, clients.GroupInUseError),
    ],
)
def test_what_is_refused_is_told_at_once(coordinator, offsets, api, code, kind):
    coordinator.codes.append(code)
    with pytest.raises(kind, match="group g on 127"):
        asking(offsets)[api]()
    assert coordinator.asked().count(api) == 1


def test_a_group_that_is_gone_is_deleted(coordinator, offsets):
    coordinator.codes.append(69)
    offsets.delete("g", WAIT_S)


def test_who_asks_long_enough_hears_what_stood_in_the_way(coordinator, offsets):
    coordinator.codes.extend([14] * 1_000)
    with pytest.raises(errors.RetriableError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        offsets.fetch("g", 0.3)
    assert coordinator.asked().count("offset_fetch") > 1
