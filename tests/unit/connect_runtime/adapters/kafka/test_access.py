"""What clients of a cluster log, and what is wrong with their settings."""

from __future__ import annotations

import logging

import pytest

from connect_runtime.adapters.kafka import access
from connect_runtime.base import errors
from connect_runtime.kafka_client import translate_errors

REFUSED = "FAIL [c#consumer-1] [thrd:h:1/bootstrap]: Connection refused (after %sms in state %s)"


def log(logger, text, *args, at_s):
    record = logger.makeRecord(logger.name, logging.ERROR, "x", 1, text, args, None)
    record.created = at_s
    logger.handle(record)


def test_what_a_client_repeats_is_told_twice_a_minute(caplog):
    logger = access._logger(access.Access(bootstrap="repeats:1"))
    for second in range(120):
        log(logger, REFUSED, second, "CONNECT", at_s=float(second))
        log(logger, "another one", at_s=float(second))
    assert len(caplog.records) == 8
    assert access._logger(access.Access(bootstrap="repeats:1")) is logger


def test_only_so_many_texts_are_remembered(caplog):
    logger = access._logger(access.Access(bootstrap="texts:1"))
    for number in range(1_000):
        log(logger, f"text {number} of many", at_s=0.0)
    (repeats,) = logger.filters
    assert len(repeats.__self__._told_s) <= 200
    assert len(caplog.records) == 1_000


def test_settings_that_the_library_refuses_are_named_without_the_others():
    given = access.Access(
        bootstrap="h:1", settings={"sasl.password": "s3cret", "socket.timeout.ms": "soon"}
    )
    with pytest.raises(errors.FatalError) as refused:
        access.admin_client(
            given, client_id="c", settings={}, reports=translate_errors.ConnectionReports()
        )
    assert "socket.timeout.ms" in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(("given", "wanted"), [({}, 10_000), ({"socket.timeout.ms": 5}, 5)])
def test_silent_brokers_are_given_up_soon_unless_it_is_said_when(given, wanted):
    found = access.impatient(access.Access(bootstrap="h:1", settings=given))
    assert found.settings["socket.timeout.ms"] == wanted
