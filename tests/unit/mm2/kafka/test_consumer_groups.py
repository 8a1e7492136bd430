"""Groups asked for many at once; whoever is not answered so is asked alone: of old brokers, of
groups that have moved, and of those that are refused."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka import librdkafka_connection_settings
from connect_runtime.kafka.client_errors import NotAuthorizedError
from connect_runtime.network import keystore_files
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from mm2.kafka.consumer_groups import KafkaGroups
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from tests.support import scripted_broker
from tests.support.scripted_broker import Asked, ScriptedBroker

WAIT_S = 20.0
T0 = TopicPartition("t", 0)
OLD = {"find_coordinator": (0, 3), "offset_fetch": (0, 7)}


class Coordinating:
    """A broker that coordinates every group, and answers with the offset in `offsets`; of those in
    `codes` with an error, once for each time it stands there."""

    def __init__(self, ranges: dict[str, tuple[int, int]]) -> None:
        self.offsets: dict[str, int] = {}
        self.codes: dict[str, list[int]] = {}
        self.silent_below = 0
        self.uninvited: tuple[Any, ...] = ()
        self.left = threading.Event()
        self.loop = Poller()
        self.broker = ScriptedBroker(self.loop)
        self.broker.ranges = ranges
        self.broker.scripts |= {"find_coordinator": self.found, "offset_fetch": self.fetched}
        self.broker.scripts["describe_share_group_offsets"] = self.shared
        self.share_codes: dict[str, int] = {}

    def move(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.loop.poll(0.01)
        self.broker.close()
        self.loop.close()

    def found(self, asked: Asked) -> None:
        where: dict[str, Any] = {
            "node_id": 1,
            "host": "127.0.0.1",
            "port": self.broker.port,
            "error_code": ErrorCode.none,
            "error_message": None,
        }
        more: dict[str, Any] = where
        if asked.version >= 4:
            keys = asked.entity.coordinator_keys
            more = {"coordinators": tuple(asked.module.Coordinator(key=e, **where) for e in keys)}
        asked.answer(asked.response(throttle_time=scripted_broker.NO_TIME, **more))

    def fetched(self, asked: Asked) -> None:
        if asked.version < self.silent_below:
            self.left.set()
            return
        m, given = asked.module, {"throttle_time": scripted_broker.NO_TIME}
        if asked.version < 8:
            topics = self._topics(m.OffsetFetchResponseTopic, m.OffsetFetchResponsePartition, asked)
            code = self._code(asked.entity.group_id)
            asked.answer(asked.response(topics=topics, error_code=code, **given))
            return
        groups = tuple(
            m.OffsetFetchResponseGroup(
                group_id=each.group_id,
                topics=self._topics(
                    m.OffsetFetchResponseTopics, m.OffsetFetchResponsePartitions, each
                ),
                error_code=ErrorCode(self._code(each.group_id)),
            )
            for each in (*asked.entity.groups, *self.uninvited)
        )
        asked.answer(asked.response(groups=groups, **given))

    def shared(self, asked: Asked) -> None:
        """Each group reads the topics in `share_codes`, whose partitions have these codes."""
        m = asked.module
        topics = tuple(
            m.DescribeShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=None,
                partitions=(
                    m.DescribeShareGroupOffsetsResponsePartition(
                        partition_index=0,
                        start_offset=7,
                        leader_epoch=0,
                        error_code=ErrorCode(code),
                        error_message=None,
                    ),
                ),
            )
            for name, code in self.share_codes.items()
        )
        groups = tuple(
            m.DescribeShareGroupOffsetsResponseGroup(
                group_id=each.group_id,
                topics=topics,
                error_code=ErrorCode.none,
                error_message=None,
            )
            for each in asked.entity.groups
        )
        asked.answer(asked.response(throttle_time=scripted_broker.NO_TIME, groups=groups))

    def _topics(self, topic: Any, partition: Any, asked: Any) -> tuple[Any, ...]:
        group = getattr(asked, "group_id", None) or asked.entity.group_id
        at = partition(
            partition_index=0,
            committed_offset=self.offsets.get(group, 7),
            metadata="",
            error_code=ErrorCode.none,
        )
        return (topic(name="t", partitions=(at,)),)

    def _code(self, group: str) -> int:
        codes = self.codes.get(group)
        return codes.pop(0) if codes else 0

    def asked(self) -> int:
        return len(self.broker.requests("offset_fetch"))


@pytest.fixture
def ranges() -> dict[str, tuple[int, int]]:
    return {}


@pytest.fixture
def place(ranges):
    made = Coordinating(ranges)
    failed: list[Any] = []
    running = ThreadGroup(on_unexpected_end=failed.append)
    running.start("broker", made.move)
    yield made
    assert running.stop_all(5.0) == []
    assert failed == []


@pytest.fixture
def asking(place, tmp_path):
    properties = {"bootstrap.servers": place.broker.address, "retry.backoff.ms": "10"}
    access = librdkafka_connection_settings.parse_cluster_access(
        properties, files=keystore_files.create_store_files(tmp_path), name="east"
    )
    made = KafkaGroups(
        access, client_id="me", clock=SystemClock(), is_shutting_down=place.left.is_set
    )
    yield made
    made.close()


def at(offset: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {T0: OffsetAndMetadata(offset=offset)}


def test_many_are_a_few_questions_and_those_that_have_not_moved_no_news(place, asking):
    names = [f"g{number:03}" for number in range(250)]
    seen: dict[str, bytes] = {}
    assert asking.fetch_changed_committed_offsets(names, WAIT_S, seen=seen).succeeded == {
        name: at(7) for name in names
    }
    assert place.asked() == 3
    place.offsets["g100"] = 9
    assert asking.fetch_changed_committed_offsets(names, WAIT_S, seen=seen).succeeded == {
        "g100": at(9)
    }
    assert place.asked() == 6
    assert len(place.broker.requests("find_coordinator")) == 1


def test_an_answer_with_groups_that_nobody_asked_for_is_ignored_as_a_whole(place, asking):
    place.uninvited = (SimpleNamespace(group_id="victim"),)
    seen: dict[str, bytes] = {}
    assert asking.fetch_changed_committed_offsets(["a"], WAIT_S, seen=seen).succeeded == {
        "a": at(7)
    }
    assert seen == {}


@pytest.mark.parametrize("ranges", [OLD, {"offset_fetch": (0, 7)}, {"find_coordinator": (0, 3)}])
def test_old_brokers_are_asked_one_by_one_and_everything_is_news(place, asking):
    seen: dict[str, bytes] = {}
    for _ in range(2):
        found = asking.fetch_changed_committed_offsets(["a", "b"], WAIT_S, seen=seen)
        assert found.failed == {}
        assert found.succeeded == {"a": at(7), "b": at(7)}
    assert place.asked() == 4


def test_who_has_moved_is_looked_for_again_and_who_is_refused_told(place, asking):
    place.codes = {"a": [16, 16], "b": [30, 30]}
    found = asking.fetch_committed_offsets(["a", "b", "c"], WAIT_S)
    assert found.succeeded == {"a": at(7), "c": at(7)}
    assert isinstance(found.failed["b"], NotAuthorizedError)
    assert asking.fetch_committed_offsets(["a", "b", "c"], WAIT_S).failed == {}


def test_who_was_not_told_of_is_news_the_next_time(place, asking):
    """Nobody waits for answers any more while one is asked alone."""
    place.codes, place.silent_below = {"b": [16]}, 8
    seen: dict[str, bytes] = {}
    with pytest.raises(RetriableError, match="aborted"):
        asking.fetch_changed_committed_offsets(["a", "b"], WAIT_S, seen=seen)
    assert seen == {}


def test_who_cannot_be_reached_is_told_as_a_whole(place, asking):
    place.broker.refuses = True
    with pytest.raises(RetriableError):
        asking.fetch_committed_offsets(["a", "b"], 1.0)


def test_what_a_share_group_reads_is_told(place, asking):
    place.share_codes = {"ours": 0, "other": 0}
    told = asking.list_share_partitions(["pool"], WAIT_S)
    assert told.succeeded == {
        "pool": {TopicPartition("ours", 0), TopicPartition("other", 0)},
    }


@pytest.mark.parametrize("codes", [(15, 0), (0, 29), (15, 29), (-1, 0)])
def test_a_share_group_of_which_a_partition_cannot_be_read_has_failed(place, asking, codes):
    """The others alone would be taken for all that it reads."""
    place.share_codes = dict(zip(("ours", "other"), codes, strict=True))
    told = asking.list_share_partitions(["pool"], 0.3)
    assert told.succeeded == {}
    assert "reading the offsets of share group pool" in str(told.failed["pool"])
