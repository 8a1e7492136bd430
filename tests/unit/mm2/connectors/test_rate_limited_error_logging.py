"""What lasts is told once a minute; what is over, and comes again, at once."""

from __future__ import annotations

import logging

from mm2.connectors import rate_limited_error_logging
from mm2.connectors.rate_limited_error_logging import RateLimitedWarnings, StallLog
from mm2.copier.progress_reports import PartitionProgressReport
from tests.fakes.plugin_contexts import Clock


def test_each_trouble_is_told_once_a_minute(caplog):
    clock = Clock()
    made = RateLimitedWarnings(logging.getLogger("t"), clock=clock)
    told = []
    for second, about in ((0, "a"), (1, "a"), (2, "b"), (59, "a"), (60, "a"), (61, "a")):
        clock.now = second
        caplog.clear()
        made.warn(about, "no")
        told.append([each.getMessage() for each in caplog.records if each.levelname == "WARNING"])
    assert told == [["a: no"], [], ["b: no"], [], ["a: no"], []]
    made.reset("a")
    caplog.clear()
    made.warn("a", "no")
    assert caplog.text.count("WARNING") == 1


NAMES = ("orders-0", "orders-1", "orders-2")
LONG_S = rate_limited_error_logging.STALL_THRESHOLD_S


def gauge(index: int, phase: str, reason: str = "") -> PartitionProgressReport:
    return PartitionProgressReport(
        index=index,
        phase=phase,
        records=0,
        bytes=0,
        copied_to=-1,
        source_end=-1,
        log_start=-1,
        age_ms=0,
        oldest_uncopied_ms=-1,
        transactional=False,
        reason=reason,
        cause="",
    )


def test_a_short_wait_is_not_worth_a_line():
    found = StallLog()
    found.record_progress_report(gauge(0, "waiting", "NOT_ENOUGH_REPLICAS"), 10.0)
    assert found.take_due_lines(NAMES, 10.0 + LONG_S - 0.1) == []
    found.record_progress_report(gauge(0, "copying"), 10.0 + LONG_S - 0.1)
    assert found.take_due_lines(NAMES, 100.0) == []


def test_a_lasting_wait_is_told_once_and_when_it_is_over():
    found = StallLog()
    for index in (1, 2):
        found.record_progress_report(gauge(index, "waiting", f"reason {index}"), 10.0)
    found.record_progress_report(gauge(1, "acquiring", "reason 3"), 12.0)
    assert found.take_due_lines(NAMES, 10.0 + LONG_S) == [
        "orders-1 is waiting (and 1 more partition): reason 3; retrying"
    ]
    assert found.take_due_lines(NAMES, 11.0 + LONG_S) == []
    found.record_progress_report(gauge(1, "copying"), 30.0)
    assert found.take_due_lines(NAMES, 30.0) == []
    found.record_progress_report(gauge(2, "copying"), 31.0)
    assert found.take_due_lines(NAMES, 31.0) == ["no partition is waiting any more"]
    assert found.take_due_lines(NAMES, 32.0) == []


def test_what_ends_while_it_waits_has_not_come_round():
    found = StallLog()
    found.record_progress_report(gauge(0, "waiting", "west is away"), 0.0)
    assert len(found.take_due_lines(NAMES, LONG_S)) == 1
    found.record_progress_report(gauge(0, "closed"), LONG_S)
    assert found.take_due_lines(NAMES, LONG_S) == []


def test_what_waits_later_is_told_too():
    found = StallLog()
    found.record_progress_report(gauge(0, "waiting", "first"), 0.0)
    assert len(found.take_due_lines(NAMES, LONG_S)) == 1
    found.record_progress_report(gauge(1, "acquiring", "fencing"), LONG_S)
    assert found.take_due_lines(NAMES, 2 * LONG_S) == ["orders-1 is waiting: fencing; retrying"]


def test_a_broker_that_stays_away_is_told_with_its_newest_reason():
    found = StallLog()
    found.record_connection_errors({"west: broker 1": "reset"}, 0.0)
    found.record_connection_errors({"west: broker 1": "refused", "west: broker 2": "refused"}, 5.0)
    assert found.take_due_lines(NAMES, LONG_S) == [
        "cannot connect to west: broker 1: refused; retrying"
    ]
    found.record_connection_errors({"west: broker 2": "refused"}, 10.0)
    assert found.take_due_lines(NAMES, 10.0) == ["all connections are restored"]
    found.record_connection_errors({}, 12.0)
    assert found.take_due_lines(NAMES, 100.0) == []


def test_what_lasts_is_told_again_with_the_newest_reason():
    found = StallLog()
    found.record_progress_report(gauge(0, "waiting", "timed out"), 0.0)
    assert len(found.take_due_lines(NAMES, LONG_S)) == 1
    found.record_progress_report(gauge(0, "waiting", "too few replicas"), 30.0)
    assert (
        found.take_due_lines(
            NAMES, LONG_S + rate_limited_error_logging.STALL_REPEAT_INTERVAL_S - 1.0
        )
        == []
    )
    assert found.take_due_lines(
        NAMES, LONG_S + rate_limited_error_logging.STALL_REPEAT_INTERVAL_S
    ) == ["orders-0 is waiting: too few replicas; retrying"]
