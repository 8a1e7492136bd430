from __future__ import annotations

import pytest

from connect_runtime.herder.herder_interface import PluginInfo, PluginType
from tests.fakes import rest_herder
from tests.fakes.rest_herder import FakeHerder
from tests.support.rest import Rest

VALIDATE = "/connector-plugins/{}/config/validate"
KEY = {
    "name": "topic",
    "type": "STRING",
    "required": True,
    "default_value": None,
    "importance": "HIGH",
    "documentation": "The topic to publish data to",
    "group": None,
    "order_in_group": -1,
    "width": "NONE",
    "display_name": "topic",
    "dependents": [],
    "order": -1,
}
CONNECTORS = [
    {"class": rest_herder.SINK, "type": "sink", "version": "4.3.1"},
    {"class": rest_herder.SOURCE, "type": "source", "version": "4.3.1"},
]
CONVERTER = {"class": "org.apache.kafka.connect.json.JsonConverter", "type": "converter"}


@pytest.fixture
def ask() -> Rest:
    return Rest(FakeHerder())


def test_a_configuration_of_too_many_keys_is_a_bad_request(ask: Rest) -> None:
    config = {f"k{number}": "" for number in range(10_001)}
    answer = ask("PUT", VALIDATE.format("FileStreamSink"), json=config)
    assert answer.status_code == 400
    assert "allowed: at most 10,000" in answer.json()["message"]


@pytest.mark.parametrize("query", ["", "?connectorsOnly=true", "?connectorsOnly=True"])
def test_connectors_are_listed_sinks_first(ask: Rest, query: str) -> None:
    assert ask("GET", f"/connector-plugins{query}").json() == CONNECTORS


@pytest.mark.parametrize("query", ["?connectorsOnly=false", "?connectorsOnly=odd"])
def test_all_plugins_are_listed(ask: Rest, query: str) -> None:
    assert ask("GET", f"/connector-plugins{query}").json() == [*CONNECTORS, CONVERTER]


def test_every_version_is_listed_and_all_in_order() -> None:
    herder = FakeHerder(
        installed=tuple(
            PluginInfo(class_name=name, type=each, version=version)
            for each in reversed(PluginType)
            for name, version in (("b", "1"), ("a", "2"), ("a", "1"))
        )
    )
    told = Rest(herder)("GET", "/connector-plugins?connectorsOnly=false").json()
    types = ["sink", "source", "transformation", "predicate", "converter", "header_converter"]
    assert [each["type"] for each in told] == [each for each in types for _ in range(3)]
    assert [(each["class"], each["version"]) for each in told[:3]] == [
        ("a", "1"),
        ("a", "2"),
        ("b", "1"),
    ]


@pytest.mark.parametrize("query", ["", "?version=latest", "?version=4.3.1"])
def test_the_keys_of_a_plugin(ask: Rest, query: str) -> None:
    told = ask("GET", f"/connector-plugins/FileStreamSource/config{query}").json()
    assert told == [KEY]
    assert list(told[0]) == list(KEY)


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [("Nope/config", 404, "Unknown plugin Nope."), ("FileStreamSource/config?version=9", 400, "")],
)
def test_keys_that_nobody_knows(ask: Rest, path: str, status: int, message: str) -> None:
    answer = ask("GET", f"/connector-plugins/{path}")
    assert answer.status_code == status
    assert message in answer.json()["message"]


@pytest.mark.parametrize(
    "plugin", ["FileStreamSource", "FileStreamSourceConnector", rest_herder.SOURCE, "Source"]
)
@pytest.mark.parametrize("included", ["FileStreamSource", "FileStreamSourceConnector"])
def test_a_configuration_is_validated(ask: Rest, plugin: str, included: str) -> None:
    if plugin == rest_herder.SOURCE:
        included = plugin
    answer = ask("PUT", VALIDATE.format(plugin), json={"connector.class": included})
    assert answer.status_code == 200
    assert answer.json() == {
        "name": included,
        "error_count": 1,
        "groups": ["Common"],
        "configs": [
            {
                "definition": KEY,
                "value": {
                    "name": "topic",
                    "value": None,
                    "recommended_values": [],
                    "errors": [
                        'Missing required configuration "topic" which has no default value.'
                    ],
                    "visible": True,
                },
            }
        ],
    }


def test_another_class_is_refused(ask: Rest) -> None:
    config = {"connector.class": "FileStreamSource"}
    answer = ask("PUT", VALIDATE.format("FileStreamSink"), json=config)
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "Included connector type FileStreamSource does not match request type FileStreamSink",
    )


def test_no_class_is_refused(ask: Rest) -> None:
    answer = ask("PUT", VALIDATE.format("FileStreamSink"), json={})
    assert answer.status_code == 400
