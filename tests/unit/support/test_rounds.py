from __future__ import annotations

import pytest

from tests.support.rounds import Rounds


class Counting(Rounds):
    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__("counting")
        self.failure = failure

    def _run(self, stop):
        while not stop.wait(0.001):
            if self.failure is not None:
                raise self.failure
            self.rounds += 1


def test_rounds_go_on_until_they_are_stopped():
    with Counting() as writing:
        before = writing.rounds
        writing.go_on(2)
        assert writing.rounds >= before + 2
        writing.stop()
        ended = writing.rounds
    assert writing.rounds == ended


def test_a_writer_that_failed_fails_its_test():
    with pytest.raises(AssertionError), Counting(ValueError("no broker")) as writing:
        writing.go_on()
