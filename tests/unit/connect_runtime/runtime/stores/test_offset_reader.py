"""A plugin waits for its offsets only as long as somebody wants them."""

from __future__ import annotations

import threading

import pytest

from connect_runtime.base import errors
from connect_runtime.runtime.stores import offset_reader


class SteppedClock:
    def __init__(self):
        self.at_s = 0.0

    def now_s(self):
        return self.at_s

    def wall_ms(self):
        return 0


class SlowOffsets:
    """Answers after some time-outs, each of which takes as long as it may."""

    def __init__(self, clock, *, after):
        self.clock = clock
        self.after = after
        self.on_wait = lambda: None

    def read(self, connector, partitions, timeout_s):
        if self.after == 0:
            return [{"of": each["p"], "by": connector} for each in partitions]
        self.after -= 1
        self.clock.at_s += timeout_s
        self.on_wait()
        raise errors.RetriableError("not yet")


def reader(offsets, given_up=None):
    return offset_reader.StoredOffsets(
        "c", offsets=offsets, given_up=given_up or threading.Event(), clock=offsets.clock
    )


def test_one_answer_for_each_partition():
    found = reader(SlowOffsets(SteppedClock(), after=3))
    assert found.offset({"p": 1}) == {"of": 1, "by": "c"}
    assert found.offsets([{"p": 1}, {"p": 2}]) == [{"of": 1, "by": "c"}, {"of": 2, "by": "c"}]


def test_who_waits_long_is_told_of_once_a_minute(caplog):
    offsets = SlowOffsets(SteppedClock(), after=75)
    assert reader(offsets).offset({"p": 1}) == {"of": 1, "by": "c"}
    assert offsets.clock.at_s == pytest.approx(150.0)
    assert [each.getMessage() for each in caplog.records] == [
        f"connector c has waited {seconds} s for its offsets: not yet" for seconds in (60, 120)
    ]


def test_a_task_that_was_given_up_hears_nothing_more():
    given_up = threading.Event()
    offsets = SlowOffsets(SteppedClock(), after=1_000)
    offsets.on_wait = given_up.set
    with pytest.raises(errors.FatalError, match="stopped meanwhile"):
        reader(offsets, given_up).offset({"p": 1})
    assert offsets.clock.at_s < 10.0
