from __future__ import annotations

import json
from typing import Any

import pytest

from connect_runtime.herder.herder_interface import ConnectorOffset
from connect_runtime.herder.herder_requests import ModifyConnectorOffsets
from connect_runtime.herder.requests_to_other_workers import PeerResponse
from connect_runtime.storage.cluster_config_state import TargetState
from tests.fakes.rest_herder import FakeHerder
from tests.support.rest import FakePeers, Rest

PATH = "/connectors/c/offsets"
ENTRY = {"partition": {"filename": "f"}, "offset": {"position": 2**60}}


@pytest.fixture
def herder() -> FakeHerder:
    made = FakeHerder()
    made.make("c", state=TargetState.STOPPED)
    return made


def test_offsets_are_read(herder: FakeHerder) -> None:
    herder.offsets["c"] = [
        ConnectorOffset(
            partition={"kafka_topic": "t", "kafka_partition": 0}, offset={"kafka_offset": 10}
        ),
        ConnectorOffset(partition={"filename": "ä"}, offset=None),
    ]
    answer = Rest(herder)("GET", PATH)
    assert answer.status_code == 200
    assert answer.text == (
        '{"offsets":[{"partition":{"kafka_topic":"t","kafka_partition":0},'
        '"offset":{"kafka_offset":10}},{"partition":{"filename":"ä"},"offset":null}]}'
    )


def test_numbers_that_json_does_not_have_are_quoted(herder: FakeHerder) -> None:
    """As Jackson writes them. A stored `1e400` is read as infinity."""
    herder.offsets["c"] = [
        ConnectorOffset(
            partition={"p": "ä"},
            offset={"a": float("inf"), "b": [float("-inf"), {"c": float("nan")}], "d": 1.5},
        )
    ]
    answer = Rest(herder)("GET", PATH)
    assert answer.text == (
        '{"offsets":[{"partition":{"p":"ä"},'
        '"offset":{"a":"Infinity","b":["-Infinity",{"c":"NaN"}],"d":1.5}}]}'
    )


def test_offsets_are_altered_and_reset(herder: FakeHerder) -> None:
    ask = Rest(herder)
    answer = ask("PATCH", PATH, json={"offsets": [ENTRY]})
    message = "The offsets for this connector have been altered successfully"
    assert (answer.status_code, answer.json()) == (200, {"message": message})
    assert ask("GET", PATH).json() == {"offsets": [ENTRY]}
    answer = ask("DELETE", PATH)
    message = "The offsets for this connector have been reset successfully"
    assert (answer.status_code, answer.json()) == (200, {"message": message})
    assert ask("GET", PATH).json() == {"offsets": []}


def test_a_null_offset_forgets_and_the_last_of_a_partition_counts(
    herder: FakeHerder,
) -> None:
    again = {"partition": {"filename": "f"}, "offset": None}
    Rest(herder)("PATCH", PATH, json={"offsets": [ENTRY, again]})
    assert herder.submitted == [ModifyConnectorOffsets("c", [({"filename": "f"}, None)])]


@pytest.mark.parametrize("body", [{"offsets": []}, {"offsets": None}, {}])
def test_nothing_to_alter_is_refused(herder: FakeHerder, body: Any) -> None:
    answer = Rest(herder)("PATCH", PATH, json=body)
    message = "Partitions / offsets need to be provided for an alter offsets request"
    assert (answer.status_code, answer.json()["message"]) == (400, message)


@pytest.mark.parametrize(("method", "body"), [("PATCH", {"offsets": [ENTRY]}), ("DELETE", None)])
def test_a_running_connector_keeps_its_offsets(herder: FakeHerder, method: str, body: Any) -> None:
    herder.make("c", state=TargetState.STARTED)
    answer = Rest(herder)(method, PATH, json=body)
    assert answer.status_code == 400
    assert "must be in the STOPPED state" in answer.json()["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_unknown_connector_has_none(herder: FakeHerder, method: str) -> None:
    answer = Rest(herder)(method, "/connectors/none/offsets")
    assert (answer.status_code, answer.json()["message"]) == (404, "Connector none not found")


def test_offsets_are_forwarded_as_they_were_given(herder: FakeHerder) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083"
    others = FakePeers(says=PeerResponse(status=200, value={"message": "done"}))
    ask = Rest(herder, among=others)
    given = {"offsets": [ENTRY, {"partition": {"filename": "g"}, "offset": {"position": 1.5}}]}
    assert ask("PATCH", PATH, json=given).json() == {"message": "done"}
    assert ask("DELETE", PATH).json() == {"message": "done"}
    first, second = others.asked
    assert json.loads(first.body or b"") == given
    assert (second.method, second.body) == ("DELETE", None)
