from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect_runtime.base import errors
from mm2.sandbox import clients


def test_what_is_retriable_is_asked_again():
    answers: Iterator[int | errors.ConnectError] = iter(
        [errors.RetriableError("loads"), errors.RetriableError("loads"), 7]
    )

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, int):
            return answer
        raise answer

    assert clients.repeated(ask) == 7


def test_what_is_not_comes_at_once_and_what_stays_at_the_deadline():
    asked = []

    def refused(error: errors.ConnectError) -> None:
        asked.append(error)
        raise error

    with pytest.raises(errors.FatalError, match="no right"):
        clients.repeated(lambda: refused(errors.FatalError("no right")))
    assert len(asked) == 1
    with pytest.raises(errors.RetriableError, match="loads"):
        clients.repeated(lambda: refused(errors.RetriableError("loads")), timeout_s=0.3)
    assert len(asked) > 2
