"""One question at a time, asked again where a broker holds us back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect_runtime.base import errors
from connect_runtime.wire.codec import fetch
from mm2.pipeline import single_questions
from tests.fakes import plugin_contexts

FOUND = SimpleNamespace(error_code=0, records=b"held")


class Questions(single_questions.SingleQuestions):
    """A broker that gives these answers, the last of them from then on; each takes a second."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.time = plugin_contexts.Clock()
        self._clock = self.time
        self._poller = cast(Any, SimpleNamespace(poll=lambda wait_s: None))
        self._cluster = cast(
            Any, SimpleNamespace(troubles=dict, tick=lambda now_s: 1.0, refresh_metadata=int)
        )

    def leader(self, topic: str, partition: int = 0) -> int:
        return 1

    def topic_id(self, topic: str) -> bytes:
        return bytes(16)

    def spoken(self, node_id: int, api_key: int, asked: tuple[int, int]) -> int | None:
        return asked[0]

    def _raw(self, *_: Any, **__: Any) -> Any:
        self.time.now += 1.0
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def answer(*partitions: Any, error_code: int = 0) -> Any:
    return SimpleNamespace(partitions=partitions, error_code=error_code)


@pytest.fixture(autouse=True)
def _decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "decode_fetch_response", lambda version, body: body)


def test_an_answer_without_the_partition_is_no_error_but_asked_again():
    questions = Questions(answer(), answer(), answer(FOUND))
    assert id(questions.fetch("orders", 5)) == id(FOUND)
    with pytest.raises(errors.RetriableError, match="reading orders-0: nothing within 20 s"):
        Questions(answer()).fetch("orders", 5)


def test_what_the_broker_says_is_told():
    refused = SimpleNamespace(error_code=6)
    for each in (answer(refused), answer(error_code=6)):
        with pytest.raises(errors.RetriableError, match="NOT_LEADER"):
            Questions(each).fetch("orders", 5)
