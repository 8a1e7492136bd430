from __future__ import annotations

import logging

import pytest

from connect_runtime.base import errors
from connect_runtime.runtime import traces

LOG = logging.getLogger("traces")


def test_what_went_wrong_comes_first():
    error = ValueError("no topic in the configuration")
    error.__cause__ = KeyError("topic")
    told = traces.of(error).splitlines()
    assert told[0] == "ValueError: no topic in the configuration"
    assert "KeyError: 'topic'" in told
    assert told[-1] == told[0]


@pytest.mark.parametrize(
    ("error", "traced"), [(errors.FatalError("wrong password"), False), (KeyError("topic"), True)]
)
def test_an_error_that_explains_itself_is_logged_in_a_line(caplog, error, traced):
    with caplog.at_level(logging.INFO):
        traces.log(LOG, "task a-0", error)
    (record,) = caplog.records
    assert (record.levelname, record.exc_info is not None) == ("ERROR", traced)
    assert "task a-0" in caplog.text
    assert str(error) in caplog.text


def test_where_it_failed_is_there_for_who_looks_closely(caplog):
    with caplog.at_level(logging.DEBUG):
        traces.log(LOG, "task a-0", errors.FatalError("wrong password"))
    assert [each.levelname for each in caplog.records] == ["ERROR", "DEBUG"]
    assert caplog.records[1].exc_info is not None
