from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from mm2.sandbox import sandbox_clients


def test_what_is_retriable_is_asked_again():
    answers: Iterator[int | ConnectError] = iter(
        [RetriableError("loads"), RetriableError("loads"), 7]
    )

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, int):
            return answer
        raise answer

    assert sandbox_clients.retry_transient_errors(ask) == 7


def test_what_is_not_comes_at_once_and_what_stays_at_the_deadline():
    asked = []

    def refused(error: ConnectError) -> None:
        asked.append(error)
        raise error

    with pytest.raises(FatalError, match="no right"):
        sandbox_clients.retry_transient_errors(lambda: refused(FatalError("no right")))
    assert len(asked) == 1
    with pytest.raises(RetriableError, match="loads"):
        sandbox_clients.retry_transient_errors(
            lambda: refused(RetriableError("loads")), timeout_s=0.3
        )
    assert len(asked) > 2
