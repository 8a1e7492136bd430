"""Many questions go out at once; each is answered, or told why not, in its place."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.kafka.admin_requests import AdminRequest, AdminRequestClient
from connect_runtime.kafka.client_errors import NotAuthorizedError
from connect_runtime.network.cluster_connections import ConnectionSettings
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol import consumer_group_requests
from connect_runtime.protocol.request_builders import AnyNodeTarget
from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from tests.support import scripted_broker
from tests.support.scripted_broker import Asked, ScriptedBroker

WAIT_S = 20.0


class Deleting:
    """A broker that answers to the deletion of a group with the error code in `codes`, or none;
    to that of `silent` groups with nothing, and of `lost` ones it hangs up."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.silent: set[str] = set()
        self.lost: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.loop = Poller()
        self.broker = ScriptedBroker(self.loop)
        self.broker.scripts["delete_groups"] = self.answer

    def move(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.loop.poll(0.01)
        self.broker.close()
        self.loop.close()

    def answer(self, asked: Asked) -> None:
        (group,) = asked.entity.groups_names
        self.asked[group] += 1
        if group in self.silent:
            return
        if group in self.lost:
            asked.link.close()
            return
        code = ErrorCode(self.codes.get(group, 0))
        result = asked.module.DeletableGroupResult(group_id=group, error_code=code)
        asked.answer(asked.response(throttle_time=scripted_broker.NO_TIME, results=(result,)))


@pytest.fixture
def deleting():
    made = Deleting()
    failed: list[Any] = []
    running = ThreadGroup(on_unexpected_end=failed.append)
    running.start("broker", made.move)
    yield made
    assert running.stop_all(5.0) == []
    assert failed == []


@pytest.fixture
def leaving():
    return threading.Event()


@pytest.fixture
def asking(deleting, leaving):
    settings = ConnectionSettings(
        bootstrap=(deleting.broker.address,),
        retry_backoff_s=0.01,
        reconnect_backoff_s=0.01,
        client_id="me",
    )
    made = AdminRequestClient(
        settings,
        clock=SystemClock(),
        rng=random.Random(1),
        where="east",
        is_cancelled=leaving.is_set,
    )
    yield made
    made.close()


def question(group: str, **more: Any) -> AdminRequest:
    return AdminRequest(
        to=AnyNodeTarget(),
        message=consumer_group_requests.build_delete_group_request(group),
        doing=f"deleting {group}",
        **more,
    )


def test_each_question_has_its_answer_in_its_place(deleting, asking):
    deleting.codes = {"g7": 30, "g300": 69}
    names = [f"g{number}" for number in range(450)]
    answers = asking.send_requests([question(each) for each in names], WAIT_S)
    for name, answer in zip(names, answers, strict=True):
        if name == "g7":
            assert isinstance(answer, NotAuthorizedError)
            assert "deleting g7 on east" in str(answer)
        elif name == "g300":
            assert isinstance(answer, FatalError)
        else:
            assert answer.results[0].group_id == name
    assert max(deleting.asked.values()) == 1


def test_nothing_is_asked_of_nobody(asking):
    assert asking.send_requests([], WAIT_S) == []


def test_silence_about_one_does_not_take_the_others_answers(deleting, asking):
    deleting.silent = {"b"}
    a, b = asking.send_requests([question("a"), question("b")], 0.5)
    assert a.results[0].group_id == "a"
    assert isinstance(b, RetriableError)


def test_what_may_not_come_twice_is_asked_once(deleting, asking):
    deleting.lost = {"a"}
    with pytest.raises(RetriableError):
        asking.send_request(question("a", retry=False), WAIT_S)
    assert deleting.asked == {"a": 1}


def test_who_has_gone_waits_for_nothing(deleting, asking, leaving):
    deleting.silent = {"a"}
    leaving.set()
    with pytest.raises(RetriableError, match="deleting a was aborted"):
        asking.send_request(question("a"), WAIT_S)
