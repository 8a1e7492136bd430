"""Fuzz targets of the Connect worker: converters, headers, bodies of REST, internal topics,
configuration values, and expressions of users."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

from connect_runtime.api import config_types, converter
from connect_runtime.api.config_types import Type
from connect_runtime.api.errors import ConfigError, DataError
from connect_runtime.base import bounded_regex, terminal_escape
from connect_runtime.base.bounded_regex import MatchLimitError, PatternError
from connect_runtime.config import config_providers
from connect_runtime.herder import task_config_publishing
from connect_runtime.metrics_server import exporter
from connect_runtime.metrics_server.exporter import BadRequestError
from connect_runtime.plugins.header_converter import SimpleHeaderConverter
from connect_runtime.plugins.json_converter import JsonConverter
from connect_runtime.plugins.simple_converters import (
    ByteArrayConverter,
    DoubleConverter,
    LongConverter,
    StringConverter,
)
from connect_runtime.rest import basic_auth, request_bodies
from connect_runtime.rest.request_bodies import UnreadableBody
from connect_runtime.storage import java_hash_map_json, offset_file_format
from connect_runtime.storage.java_hash_map_json import MalformedJson, UnencodableValue
from connect_runtime.storage.offset_file_format import MalformedOffsetFile
from tests.fuzz import targets

DATA = (DataError,)
CONFIG = {
    "name": "c",
    "config": {"connector.class": "X", "tasks.max": 1, "p": True, "q": None},
    "initial_state": "PAUSED",
}


def _json(*values: object) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


def _there_and_back(made: Any, **configs: str) -> Callable[[bytes], object]:
    made.configure({converter.TYPE_CONFIG: "value", **configs})

    def call(data: bytes) -> None:
        made.encode(made.decode(data))

    return call


def _text(call: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: call(data.decode(errors="replace"))


# Converters

LOGICAL = "org.apache.kafka.connect.data."
FIELDS = [
    {"field": "a", "type": "int32"},
    {"field": "ts", "type": "int64", "name": f"{LOGICAL}Timestamp", "version": 1},
    {"field": "d", "type": "bytes", "name": f"{LOGICAL}Decimal", "parameters": {"scale": "2"}},
    {"field": "dt", "type": "int32", "name": f"{LOGICAL}Date"},
    {"field": "tm", "type": "int32", "name": f"{LOGICAL}Time"},
    {"field": "m", "type": "map", "keys": {"type": "int8"}, "values": {"type": "string"}},
    {"field": "l", "type": "array", "items": {"type": "float"}},
]
VALUE = {"a": 1, "ts": 1_700_000_000_000, "d": "AQ==", "dt": 19_000, "tm": 1, "m": [[1, "x"]]}
ENVELOPES = _json(
    {"schema": {"type": "struct", "fields": FIELDS}, "payload": VALUE | {"l": [1.5]}},
    {"schema": {"type": "int64", "name": f"{LOGICAL}Timestamp"}, "payload": 2**62},
    {"schema": {"type": "string", "default": "x", "optional": True}, "payload": None},
)
targets.register(
    "json-converter-schemas",
    _there_and_back(JsonConverter(), **{"schemas.enable": "true"}),
    seeds=ENVELOPES,
    allowed=DATA,
    text=True,
)
targets.register(
    "json-converter-plain",
    _there_and_back(JsonConverter(), **{"schemas.enable": "false"}),
    seeds=[*_json(CONFIG, [1, 2.5, None]), b"[007]", b'"x" y'],
    allowed=DATA,
    text=True,
)
targets.register("byte-array-converter", _there_and_back(ByteArrayConverter()), seeds=[b"x"])
targets.register(
    "string-converter", _there_and_back(StringConverter()), seeds=[b"abc"], allowed=DATA
)
targets.register("long-converter", _there_and_back(LongConverter()), seeds=[bytes(8)], allowed=DATA)
targets.register(
    "double-converter",
    _there_and_back(DoubleConverter()),
    seeds=[bytes(8)],
    allowed=DATA,
)


def _header(data: bytes) -> None:
    made = SimpleHeaderConverter()
    made.from_connect_header("t", "k", made.to_connect_header("t", "k", data))


targets.register(
    "header-text",
    _header,
    seeds=[
        b'[1,2,3]', b'{"a":1,"b":[1.5]}', b"1e999999999", b"2020-01-01T00:00:00.000Z",
        b"0001-01-01", b'["a","b",null]', b"1e-999999999", b"[" * 90 + b"]" * 90, b"-0.0",
    ],
    text=True,
)  # fmt: skip


# REST, and what a worker keeps in topics and files

for name, read, seed in (
    ("creation", request_bodies.parse_create_request, CONFIG),
    ("config", request_bodies.parse_config, CONFIG["config"]),
    ("configs", request_bodies.parse_task_configs, [{"a": "b"}, {"c": 1}]),
    (
        "offsets",
        request_bodies.parse_offset_changes,
        {"offsets": [{"partition": {"a": 1}, "offset": {"p": 5}}]},
    ),
):
    targets.register(f"rest-{name}", read, seeds=_json(seed), allowed=(UnreadableBody,), text=True)
targets.register(
    "json-bytes",
    lambda data: java_hash_map_json.encode_json(java_hash_map_json.decode_json(data)),
    seeds=_json(CONFIG),
    allowed=(MalformedJson, UnencodableValue),
    text=True,
)
targets.register(
    "offset-file",
    offset_file_format.decode_offsets,
    seeds=[
        offset_file_format.encode_offsets({b"k": b"v", b"k2": b"v2"}),
        offset_file_format.encode_offsets({}),
    ],
    allowed=(MalformedOffsetFile,),
)
targets.register(
    "http-head",
    exporter.parse_request_head,
    seeds=[
        b"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
        b"HEAD //[::1 HTTP/1.0\r\n\r\n",
    ],
    allowed=(BadRequestError,),
    text=True,
)
targets.register(
    "basic-credentials",
    _text(basic_auth.parse_credentials),
    seeds=[b"Basic dTpw", b"basic "],
    text=True,
)
targets.register(
    "jaas-file",
    _text(basic_auth.find_users_file),
    seeds=[b'KafkaConnect { x.PropertyFileLoginModule required file="/u"; };  // users'],
    allowed=(ConfigError,),
    text=True,
)


# Configuration values

VALUES = {
    Type.LIST: [b"a, b ,c", b" , "],
    Type.DOUBLE: [b"1.5e3", b"-Infinity", b".5f"],
    Type.LONG: [b"-9223372036854775808"],
    Type.BOOLEAN: [b"True"],
}
for kind, seeds in VALUES.items():
    targets.register(
        f"config-{kind.value.lower()}",
        _text(lambda text, kind=kind: config_types.parse_value("k", text, kind)),  # type: ignore[misc]
        seeds=seeds,
        allowed=(ConfigError,),
        text=True,
    )


def _placeholders(text: str) -> None:
    providers = config_providers.find_provider_names(text)
    assert bool(providers) == bool(task_config_publishing.find_provider_references({"k": text}))
    assert (
        config_providers.rewrite_placeholders(text, lambda *_: "").count("${")
        <= text.count("${") + 1
    )


targets.register(
    "placeholders",
    _text(_placeholders),
    seeds=[b"${env:HOME}", b"a${file:/x:key}${::}b", b"${a${b:c}}", b"${" * 50],
    text=True,
)


def _expression(text: str) -> None:
    pattern, _, name = text.partition("\n")
    with contextlib.suppress(MatchLimitError):
        bounded_regex.compile_pattern(pattern).fullmatch(name, key="topics")


targets.register(
    "user-expression",
    _text(_expression),
    seeds=[
        b"mm2.*\\.internal\nmm2-x.internal", b"(a+)+b\n" + b"a" * 100, b"(?!x).*[^a-z\\d]{2,3}\nab",
        b"(a|b)\\1\naa", b"(?>a++|b)*?c\nabc", b"(?i)\\bx$|^y\nX",
    ],
    allowed=(PatternError,),
    text=True,
    slow_s=4.0,  # names of any length
)  # fmt: skip
targets.register(
    "printable",
    _text(
        lambda text: (
            terminal_escape.escape_unprintable(text).encode()
            + terminal_escape.escape_unprintable_except_newlines(text).encode()
        )
    ),
    seeds=[b"\x1b]52;c;aGk=\x07\n", "größe\u202e".encode()],
)
