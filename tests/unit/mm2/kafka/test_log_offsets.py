"""Offsets that nobody has told are none."""

from __future__ import annotations

from concurrent import futures
from types import SimpleNamespace
from typing import Any

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from connect_runtime.system.clock import SystemClock
from mm2.kafka.log_offsets import KafkaLogOffsets
from mm2.offsets.log_bounds import LogBounds

WAIT_S = 20.0
INVALID = -1001
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Client:
    """Answers with these offsets, by partition, whatever end is asked for."""

    def __init__(self, **offsets: int) -> None:
        self.offsets = {int(name[1:]): offset for name, offset in offsets.items()}

    def list_offsets(self, asked: Any, **_: object) -> dict[Any, futures.Future[Any]]:
        answers: dict[Any, futures.Future[Any]] = {each: futures.Future() for each in asked}
        for each, future in answers.items():
            future.set_result(SimpleNamespace(offset=self.offsets[each.partition]))
        return answers

    def poll(self, _: float) -> int:
        return 0


@pytest.fixture
def asked(monkeypatch):
    def made(**offsets: int) -> KafkaLogOffsets:
        access = KafkaClusterAccess(name="east", bootstrap=("127.0.0.1:1",))
        logs = KafkaLogOffsets(access, client_id="c", clock=SystemClock())
        monkeypatch.setattr(logs._calls, "client", Client(**offsets))
        return logs

    return made


def test_a_leader_that_did_not_answer_has_told_no_end(asked):
    found = asked(p0=7, p1=INVALID).fetch_bounds([T0, T1], WAIT_S)
    assert found.succeeded == {T0: LogBounds(start=7, end=7)}
    assert isinstance(found.failed[T1], RetriableError)
    assert str(found.failed[T1]) == "reading the log start of t-1: the leader did not respond"


def test_where_nothing_is_as_late_as_asked_is_told_apart_from_silence(asked):
    found = asked(p0=-1, p1=INVALID).find_offsets_by_time({T0: 5, T1: 5}, WAIT_S)
    assert found.succeeded == {T0: None}
    assert set(found.failed) == {T1}
