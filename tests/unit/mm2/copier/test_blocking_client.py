"""One question at a time, asked again where a broker holds us back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.protocol import fetch_requests
from mm2.copier.blocking_client import BlockingClient, BrokerResponseError
from tests.fakes.plugin_contexts import Clock

FOUND = SimpleNamespace(error_code=0, records=b"held")


class Questions(BlockingClient):
    """A broker that gives these answers, the last of them from then on; each takes a second."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.time = Clock()
        self._clock = self.time
        self._poller = cast(Any, SimpleNamespace(poll=lambda wait_s: None))
        self._cluster = cast(
            Any,
            SimpleNamespace(
                get_connection_errors=dict, tick=lambda now_s: 1.0, refresh_metadata=int
            ),
        )

    def find_leader(self, topic: str, partition: int = 0) -> int:
        return 1

    def get_topic_id(self, topic: str) -> bytes:
        return bytes(16)

    def negotiate_version(
        self, node_id: int, api_key: int, version_range: tuple[int, int]
    ) -> int | None:
        return version_range[0]

    def _send_raw_request(self, *_: Any, **__: Any) -> Any:
        self.time.now += 1.0
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def answer(*partitions: Any, error_code: int = 0) -> Any:
    return SimpleNamespace(partitions=partitions, error_code=error_code)


@pytest.fixture(autouse=True)
def _decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_requests, "decode_fetch_response", lambda version, body, **_: body)


def test_an_answer_without_the_partition_is_no_error_but_asked_again():
    questions = Questions(answer(), answer(), answer(FOUND))
    assert id(questions.fetch("orders", 5)) == id(FOUND)
    with pytest.raises(RetriableError, match="reading orders-0: timed out after 20 s"):
        Questions(answer()).fetch("orders", 5)


def test_what_the_broker_says_is_told():
    refused = SimpleNamespace(error_code=6)
    for each in (answer(refused), answer(error_code=6)):
        with pytest.raises(BrokerResponseError, match="NOT_LEADER") as caught:
            Questions(each).fetch("orders", 5)
        assert caught.value.error_code == 6


@pytest.mark.parametrize(("code", "told"), [(29, "TOPIC_AUTHORIZATION_FAILED"), (0, "timed out")])
def test_why_a_leader_is_not_found_is_told_as_the_broker_says_it(
    code: int, told: str, monkeypatch: pytest.MonkeyPatch
):
    questions = Questions()
    view = SimpleNamespace(
        get_leader=lambda *_: None, get_topic=lambda _: SimpleNamespace(error_code=code)
    )
    monkeypatch.setattr(questions._cluster, "view", view, raising=False)
    monkeypatch.setattr(questions._cluster, "set_metadata_topics", len, raising=False)
    monkeypatch.setattr(
        questions._poller, "poll", lambda _: setattr(questions.time, "now", questions.time.now + 1)
    )
    with pytest.raises(RetriableError, match=f"leader of orders-0: {told}"):
        BlockingClient.find_leader(questions, "orders")
