from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from connect_runtime.herder import herder_requests
from connect_runtime.rest import request_bodies
from connect_runtime.rest.request_bodies import CreateConnectorRequest, UnreadableBody
from connect_runtime.storage.cluster_config_state import TargetState


def test_values_become_strings_as_they_were_written() -> None:
    data = '{"i":1,"f":1.50,"e":1e3,"t":true,"n":null,"s":"ä","big":123456789012345678901}'
    assert request_bodies.parse_config(data.encode()) == {
        "i": "1",
        "f": "1.50",
        "e": "1e3",
        "t": "true",
        "n": None,
        "s": "ä",
        "big": "123456789012345678901",
    }


def test_a_byte_order_mark_is_none_of_our_business() -> None:
    assert request_bodies.parse_config(b"\xef\xbb\xbf{}") == {}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "has none"),
        (b" \n", "has none"),
        (b"{nope", "not valid JSON: .* line 1, column 2"),
        (b"[1]", "expected a JSON object of strings, not an array"),
        (b"null", "not null"),
        (b'{"a":{"b":1}}', "the configuration has an object as 'a'"),
        (b'{"a":[]}', "an array as 'a'"),
        (b'{"a":NaN}', "not valid JSON"),
        (b'{"a":"\xff"}', "not valid UTF-8 at byte 6"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_configuration_is_unreadable(data: bytes, told: str) -> None:
    with pytest.raises(UnreadableBody, match=told):
        request_bodies.parse_config(data)


@pytest.mark.parametrize(
    "read",
    [
        request_bodies.parse_config,
        request_bodies.parse_create_request,
        request_bodies.parse_task_configs,
        request_bodies.parse_offset_changes,
    ],
)
def test_values_are_not_told(read: Callable[[bytes], Any]) -> None:
    with pytest.raises(UnreadableBody) as unreadable:
        read(b'{"password": {"geheim": geheim}')
    assert "geheim" not in str(unreadable.value)


def test_a_creation_is_read_and_said_again() -> None:
    data = {"name": " c ", "config": {"a": 1}, "initial_state": "Stopped"}
    read = request_bodies.parse_create_request(json.dumps(data).encode())
    assert read == CreateConnectorRequest(
        name="c", config={"a": "1"}, initial_state=TargetState.STOPPED
    )
    said = read.to_json()
    assert said == {"name": "c", "config": {"a": "1"}, "initial_state": "STOPPED"}
    assert request_bodies.parse_create_request(json.dumps(said).encode()) == read


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("   c  \n  ", "c"),
        ("   \t\n  \b", ""),
        (None, ""),
        ("\u3000c", "\u3000c"),
        ("a\nb", "a\nb"),
    ],
)
def test_a_name_is_trimmed_as_java_trims(given: str | None, name: str) -> None:
    """ConnectorsResourceTest.testCreateConnectorName*, testCreateConnectorNoName."""
    assert (
        request_bodies.parse_create_request(json.dumps({"name": given, "config": {}}).encode()).name
        == name
    )


def test_a_creation_may_lack_a_name_and_a_state() -> None:
    read = request_bodies.parse_create_request(b'{"config": {}}')
    assert (read.name, read.initial_state) == ("", None)
    assert request_bodies.parse_create_request(b'{"name": 5, "config": {}}').name == "5"
    assert read.to_json()["initial_state"] is None


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"name":"c","config":{},"more":1}', 'Unrecognized field "more"; allowed: name, config'),
        (b'{"name":["c"],"config":{}}', "'name' must be a string, not an array"),
        (
            b'{"name":"c","config":{},"initial_state":"odd"}',
            "must be one of RUNNING, PAUSED, STOPPED",
        ),
        (b'{"name":"c","config":{},"initial_state":1}', "must be one of RUNNING, PAUSED, STOPPED"),
        (b'{"name":"c"}', "expected a JSON object of strings as 'config', not null"),
        (b"[]", "expected a JSON object .*, not an array"),
    ],
)
def test_what_is_no_creation_is_unreadable(data: bytes, told: str) -> None:
    with pytest.raises(UnreadableBody, match=told):
        request_bodies.parse_create_request(data)


def test_a_name_that_the_group_could_not_assign_is_refused() -> None:
    data = json.dumps({"name": "x" * 32_768, "config": {}}).encode()
    with pytest.raises(UnreadableBody, match="use at most 255 bytes in UTF-8") as refused:
        request_bodies.parse_create_request(data)
    assert len(str(refused.value)) < 500


def test_a_connector_has_a_largest_number_of_tasks() -> None:
    assert len(request_bodies.parse_task_configs(b"[" + b"{}," * 9_999 + b"{}]")) == 10_000
    with pytest.raises(UnreadableBody, match="at most 10,000 tasks"):
        request_bodies.parse_task_configs(b"[" + b"{}," * 10_000 + b"{}]")


def test_task_configs_are_a_list() -> None:
    assert request_bodies.parse_task_configs(b'[{"a":1},{}]') == [{"a": "1"}, {}]
    for data in (b"{}", b"[1]"):
        with pytest.raises(UnreadableBody):
            request_bodies.parse_task_configs(data)


def test_offsets_keep_their_types() -> None:
    entry = {"partition": {"p": 1, "q": "1", "r": None}, "offset": {"o": [1.5, True, 2**63]}}
    data = json.dumps({"offsets": [entry]}).encode()
    assert request_bodies.parse_offset_changes(data) == [(entry["partition"], entry["offset"])]


def test_the_last_offset_of_a_partition_counts() -> None:
    entries: list[Any] = [
        {"partition": {"a": 1, "b": 2}, "offset": {"o": 1}},
        {"partition": {"a": "1", "b": 2}, "offset": {"o": 2}},
        {"partition": {"b": 2, "a": 1}, "offset": None},
        {"partition": None, "offset": {"o": 3}},
    ]
    assert request_bodies.parse_offset_changes(json.dumps({"offsets": entries}).encode()) == [
        ({"b": 2, "a": 1}, None),
        ({"a": "1", "b": 2}, {"o": 2}),
        (None, {"o": 3}),
    ]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"x":1}', 'Unrecognized field "x"; allowed: offsets'),
        (b'{"offsets":{}}', "'offsets' must be an array, not an object"),
        (b'{"offsets":[1]}', "expected a JSON object .*, not a number"),
        (b'{"offsets":[{"partition":1}]}', "'partition' must be a JSON object, not a number"),
        (
            b'{"offsets":[{"partition":{},"offset":"x"}]}',
            "'offset' must be a JSON object, not a string",
        ),
        (b'{"offsets":[{"topic":{}}]}', 'Unrecognized field "topic"'),
    ],
)
def test_what_are_no_offsets_is_unreadable(data: bytes, told: str) -> None:
    with pytest.raises(UnreadableBody, match=told):
        request_bodies.parse_offset_changes(data)


def test_a_file_may_hold_more_than_a_request() -> None:
    data = b'{"name": "a", "config": {}, "owner": "me"}'
    assert request_bodies.parse_create_request(data, ignore_unknown=True).name == "a"
    with pytest.raises(UnreadableBody, match="owner"):
        request_bodies.parse_create_request(data)


@pytest.mark.parametrize("name", [".", "..", " .. ", "\ud800", "a\udfffb"])
def test_a_name_that_no_url_can_hold_is_unreadable(name: str) -> None:
    body = json.dumps({"name": name, "config": {}}).encode()
    with pytest.raises(UnreadableBody, match="'name' is") as raised:
        request_bodies.parse_create_request(body)
    str(raised.value).encode()
    assert request_bodies.parse_create_request(b'{"name": "...", "config": {}}').name == "..."


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"{}," * 300_000 + b"{}]",
        b"[" + b"[]," * 300_000 + b"[]]",
        b"[" * 600_000,
        b"[" + b'"",' * 1_200_000 + b'""]',
        b'{"a":[' + b'"\\\\","\\"",' * 300_000 + b"1]}",
        b'{"offsets":[' + b"1," * 600_000 + b"1]}",
    ],
)
@pytest.mark.parametrize(
    "parse",
    [
        request_bodies.parse_config,
        request_bodies.parse_task_configs,
        request_bodies.parse_create_request,
        request_bodies.parse_offset_changes,
    ],
)
def test_a_body_of_very_many_values_is_not_parsed(parse: Callable[..., Any], data: bytes) -> None:
    with pytest.raises(UnreadableBody, match="more than 500,000 JSON values"):
        parse(data)


def test_commas_and_brackets_in_a_value_do_not_count() -> None:
    value = 'a,[{"\\' * 400_000
    data = json.dumps({"topics": value}).encode()
    assert request_bodies.parse_config(data) == {"topics": value}


def test_a_configuration_has_a_largest_number_of_keys() -> None:
    config = {f"k{number}": "" for number in range(herder_requests.CONFIG_KEYS_MAX)}
    assert request_bodies.parse_config(json.dumps(config).encode()) == config
    data = json.dumps({**config, "more": ""}).encode()
    with pytest.raises(UnreadableBody, match="has 10,001 keys; allowed: at most 10,000"):
        request_bodies.parse_config(data)
    with pytest.raises(UnreadableBody, match="'config' has 10,001 keys"):
        request_bodies.parse_create_request(b'{"name": "x", "config": ' + data + b"}")


def test_the_offsets_of_70_000_partitions_are_accepted() -> None:
    entries = [
        {"partition": {"cluster": "a", "topic": "t", "partition": at}, "offset": {"offset": 1}}
        for at in range(70_000)
    ]
    data = json.dumps({"offsets": entries}).encode()
    assert len(request_bodies.parse_offset_changes(data)) == 70_000
