from __future__ import annotations

import logging

import pytest

from connect_runtime.base import log_context
from connect_runtime.base.log_context import LogContextFilter


def test_parts_nest_and_end_with_their_block():
    assert log_context.format_log_prefix() == ""
    with log_context.bind_log_fields(flow="east->west"):
        with log_context.bind_log_fields(task=3):
            assert log_context.format_log_prefix() == "[east->west|task 3] "
            with log_context.bind_log_fields(task=4):
                assert log_context.format_log_prefix() == "[east->west|task 4] "
        assert log_context.format_log_prefix() == "[east->west] "
    assert log_context.format_log_prefix() == ""


def test_it_ends_with_its_block_when_the_block_raises():
    with pytest.raises(ValueError, match="x"), log_context.bind_log_fields(connector="c"):
        raise ValueError("x")
    assert log_context.format_log_prefix() == ""


def test_the_filter_gives_every_record_its_context():
    record = logging.LogRecord("n", logging.INFO, "f", 1, "m", (), None)
    with log_context.bind_log_fields(connector="heartbeat"):
        assert LogContextFilter().filter(record)
    assert record.context == "[connector heartbeat] "  # type: ignore[attr-defined]


def test_threads_that_are_started_for_a_flow_log_of_it_alone():
    with log_context.bind_log_fields(flow="a->b", connector="c"):
        later = log_context.bind_caller_flow_to_log_fields()
    with later:
        assert log_context.format_log_prefix() == "[a->b] "
    with log_context.bind_caller_flow_to_log_fields():
        assert log_context.format_log_prefix() == ""
