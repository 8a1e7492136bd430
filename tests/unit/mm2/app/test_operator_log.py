"""What operators do is logged in the words of the commands, with who did it."""

from __future__ import annotations

import json

import pytest

from connect_runtime.rest import change_log
from mm2.app import operator_log

SOURCE = "/east/west/connectors/MirrorSourceConnector"
WHO = "root (uid 0, pid 17)"


def change(method: str, path: str, body: object = None, status: int = 202) -> change_log.Change:
    return change_log.Change(
        method=method,
        path=path,
        query="",
        body=b"" if body is None else json.dumps(body).encode(),
        user=WHO,
        client="127.0.0.1:5",
        status=status,
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("PUT", f"{SOURCE}/pause"), "pause east->west"),
        (("PUT", f"{SOURCE}/resume"), "resume east->west"),
        (("PUT", f"{SOURCE}/stop"), "stop east->west"),
        (
            ("PUT", "/east/west/connectors/MirrorCheckpointConnector/resume"),
            "resume MirrorCheckpointConnector of east->west",
        ),
        (("POST", f"{SOURCE}/restart"), "restart east->west"),
        (("POST", f"{SOURCE}/tasks/2/restart"), "restart task 2 of east->west"),
        (("PATCH", f"{SOURCE}/config", {"live.throttle": "1MB"}), "throttle east->west: 1MB"),
        (
            ("PATCH", f"{SOURCE}/config", {"live.throttle": None, "live.paused.topic.a.b": "true"}),
            "pause topic a.b of east->west; throttle east->west: as configured",
        ),
        (
            ("PATCH", f"{SOURCE}/config", {"live.throttle.topic.orders": "2MB"}),
            "throttle topic orders of east->west: 2MB",
        ),
        (
            ("PATCH", f"{SOURCE}/config", {"live.paused.topic.orders": None}),
            "resume topic orders of east->west",
        ),
        (
            ("PATCH", f"{SOURCE}/config", {"source.cluster.sasl.jaas.config": "secret"}),
            "change source.cluster.sasl.jaas.config of east->west",
        ),
        (("PATCH", f"{SOURCE}/config", [1]), "change the configuration of east->west"),
        (("PUT", f"{SOURCE}/config", {}), "configure east->west"),
        (("DELETE", f"{SOURCE}/offsets"), "reset the offsets of east->west"),
        (("PATCH", f"{SOURCE}/offsets", {}), "alter the offsets of east->west"),
        (("DELETE", SOURCE), "delete east->west"),
        (("PUT", "/east/west/admin/loggers/x"), "PUT /east/west/admin/loggers/x"),
    ],
)
def test_actions_in_words(asked, words):
    assert operator_log.describe(change(*asked))[1] == words


def test_who_did_what_is_a_line_with_fields(caplog):
    caplog.set_level("INFO")
    operator_log.log_change(change("PUT", f"{SOURCE}/pause"))
    (record,) = caplog.records
    assert record.getMessage() == f"operator {WHO}: pause east->west"
    assert (record.levelname, record.operator, record.flow) == ("INFO", WHO, "east->west")


def test_what_was_refused_is_a_warning(caplog):
    operator_log.log_change(change("PUT", f"{SOURCE}/pause", status=409))
    (record,) = caplog.records
    assert record.getMessage() == f"operator {WHO}: pause east->west: refused with 409"
    assert record.levelname == "WARNING"
