"""Our validation beside Java's, live: the same keys, values, errors, or a difference with a reason.

What Java does with configurations that it cannot validate at all, it says with status 500 at the
endpoint that validates and 400 at those that write; we say 400 at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from connect_runtime.config import worker_config
from connect_runtime.herder.herder_interface import ConnectRestError
from connect_runtime.plugins import plugin_discovery
from connect_runtime.rest import rest_responses
from connect_runtime.worker.connector_validation import ConnectorValidator
from tests.support import connect_workers
from tests.support.connect_workers import Kind, Worker

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(300)]

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
GROUP = "validation-beside-java"
SETTINGS = {
    **connect_workers.storage(GROUP),
    "key.converter": JSON,
    "value.converter": JSON,
    "connector.client.config.override.policy": "Principal",
}
SOURCE = {"name": "n", "connector.class": "FileStreamSource", "topic": "t", "file": "/x"}
SINK = {"name": "n", "connector.class": "FileStreamSink", "topics": "t", "file": "/x"}
DEAD = "errors.deadletterqueue.topic.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`more`: keys on which we have an error that Java has not, each with its reason.

    `fewer`: the other way round. `only_java`: keys that we do not report, with the reason.
    """

    config: Mapping[str, str | None]
    more: Mapping[str, str] = field(default_factory=dict)
    fewer: Mapping[str, str] = field(default_factory=dict)
    only_java: Mapping[str, str] = field(default_factory=dict)
    only_ours: Mapping[str, str] = field(default_factory=dict)


LATER = "not offered by this version, so it is refused and not ignored"
RULES = "we refuse a rule for new topics by its own name; Java does not report it"
NULL = "Java forgets the null where the connector itself defines the key"

CASES: dict[str, Case] = {
    "a good source": Case(config=SOURCE),
    "a good sink": Case(config=SINK),
    "in full and with a version": Case(
        config=SOURCE
        | {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "connector.plugin.version": "[4.3,5)",
        }
    ),
    "a key that nobody knows": Case(config=SOURCE | {"unheard.of": "1"}),
    "nothing but the class of a source": Case(config={"connector.class": "FileStreamSource"}),
    "nothing but the class of a sink": Case(config={"connector.class": "FileStreamSink"}),
    "an empty name": Case(config=SOURCE | {"name": ""}),
    "a name with a bell": Case(config=SOURCE | {"name": "a\u0007b"}),
    "no tasks": Case(config=SOURCE | {"tasks.max": "0"}),
    "tasks that are no number": Case(config=SOURCE | {"tasks.max": "x", "batch.size": "y"}),
    "a class that is no converter's name": Case(config=SOURCE | {"key.converter": "Nope"}),
    "a class that does not convert": Case(
        config=SOURCE | {"value.converter": "FileStreamSourceConnector"}
    ),
    "a converter for headers alone": Case(
        config=SOURCE | {"value.converter": "SimpleHeaderConverter"}
    ),
    "a converter of its own": Case(
        config=SOURCE | {"header.converter": STRING, "header.converter.converter.encoding": "x"}
    ),
    "a converter that is configured amiss": Case(
        config=SINK
        | {
            "key.converter": "JsonConverter",
            "key.converter.schemas.enable": "maybe",
            "key.converter.decimal.format": "odd",
            "value.converter.schemas.enable": "maybe",
        }
    ),
    "a version of a converter that is not there": Case(
        config=SOURCE | {"key.converter": JSON, "key.converter.plugin.version": "9"}
    ),
    "a version of a connector that is not there": Case(
        config=SOURCE | {"connector.plugin.version": "9", "tasks.max": "0"}
    ),
    "topics and a pattern": Case(config=SINK | {"topics.regex": "x.*"}),
    "topics twice": Case(config=SINK | {"topics": "a, b,a"}),
    "a pattern that is none": Case(config=SINK | {"topics": "", "topics.regex": "("}),
    "dead letters that would be read again": Case(
        config=SINK | {DEAD: "t", "producer.override.acks": "1", "admin.override.x": "1"},
        more={DEAD: LATER},
    ),
    "dead letters that a pattern would read": Case(
        config={**SINK, "topics": "", "topics.regex": "d.*", DEAD: "dead"}, more={DEAD: LATER}
    ),
    "overrides that the policy allows": Case(
        config=SOURCE
        | {
            "producer.override.sasl.jaas.config": "hush",
            "producer.override.security.protocol": "SSL",
            "consumer.override.of.no.client": "1",
        }
    ),
    "overrides that it does not": Case(
        config=SINK
        | {"consumer.override.max.poll.records": "7", "consumer.override.group.id": GROUP}
    ),
    "nulls": Case(
        config=SOURCE | {"tasks.max": None, "unheard.of": None, "topic": None, "name": None},
        more={"topic": NULL},
    ),
    "what must be one of some words": Case(
        config=SOURCE
        | {
            "errors.tolerance": "ALL",
            "config.action.reload": "never",
            "transaction.boundary": "odd",
            "exactly.once.support": "odd",
        }
    ),
    "what must be a number, or true or false": Case(
        config=SOURCE
        | {
            "errors.retry.timeout": "x",
            "errors.log.enable": "x",
            "transaction.boundary.interval.ms": "-1",
            "offsets.storage.topic": " ",
        }
    ),
    "exactly once": Case(
        config=SOURCE | {"exactly.once.support": "required", "transaction.boundary": "connector"}
    ),
    "transforms": Case(
        config=SOURCE
        | {
            "transforms": "a",
            "transforms.a.type": "org.apache.kafka.connect.transforms.DropHeaders",
        },
        more={"transforms": LATER},
        fewer={"transforms.a.headers": "its own keys are not looked at while it is not offered"},
        only_java={
            f"transforms.a.{each}": "keys of what is not offered"
            for each in ("type", "plugin.version", "predicate", "negate", "headers")
        },
    ),
    "tolerance": Case(
        config=SINK | {"errors.tolerance": "all", "errors.retry.timeout": "5"},
        more={"errors.tolerance": LATER, "errors.retry.timeout": LATER},
    ),
    "topics made by rules, and offsets of its own": Case(
        config=SOURCE
        | {
            "topic.creation.default.partitions": "1",
            "offsets.storage.topic": "mine",
            "admin.override.x": "1",
            "consumer.override.y": "1",
        },
        more={"topic.creation.default.partitions": LATER, "offsets.storage.topic": LATER},
        only_ours={"topic.creation.default.partitions": RULES},
    ),
}


@pytest.fixture(scope="module")
def java(east: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("java")
    settings = {**SETTINGS, "bootstrap.servers": east.bootstrap}
    with (
        Worker(Kind.JAVA, settings, folder=folder) as running,
        httpx.Client(base_url=running.url, trust_env=False, timeout=60) as client,
    ):
        yield client


class Theirs:
    """What Java's worker finds. It is asked once: a version that was not there the first time is
    a NullPointerException from then on."""

    def __init__(self, java: httpx.Client) -> None:
        self._java = java
        self._found: dict[str, Any] = {}

    def validate(self, named: str) -> Any:
        if named not in self._found:
            config = CASES[named].config
            path = f"/connector-plugins/{config['connector.class']}/config/validate"
            answer = self._java.put(path, json=dict(config))
            assert answer.status_code == 200, answer.text
            self._found[named] = answer.json()
        return self._found[named]


@pytest.fixture(scope="module")
def theirs(java: httpx.Client) -> Theirs:
    return Theirs(java)


@pytest.fixture(scope="module")
def ours() -> ConnectorValidator:
    return ConnectorValidator(
        installed=plugin_discovery.discover_plugins(file_paths=["/"]),
        worker=worker_config.parse_distributed_config({**SETTINGS, "bootstrap.servers": "none:1"}),
        resolve=lambda config: config,
    )


@pytest.mark.parametrize("named", CASES)
def test_the_same_is_wrong(named: str, theirs: Theirs, ours: ConnectorValidator) -> None:
    case = CASES[named]
    expected = theirs.validate(named)
    found: Any = rest_responses.encode_config_infos(ours.validate_connector_config(case.config))
    assert found["name"] == expected["name"]
    groups = [each for each in expected["groups"] if not each.startswith("Transforms:")]
    assert sorted(found["groups"]) == sorted(groups)
    assert set(_by_key(found)) - set(_by_key(expected)) == set(case.only_ours)
    assert set(_by_key(expected)) - set(_by_key(found)) == set(case.only_java)
    our_errors, their_errors = _errors(found), _errors(expected)
    for name in case.more:
        assert their_errors.pop(name, []) == []
        assert len(our_errors.pop(name)) == 1
    for name in case.fewer:
        assert name not in our_errors
        assert their_errors.pop(name)
    assert our_errors == their_errors
    told = len(case.more) - sum(len(_errors(expected)[each]) for each in case.fewer)
    assert found["error_count"] == expected["error_count"] + told


@pytest.mark.parametrize("named", [each for each in CASES if not CASES[each].more])
def test_keys_and_values_are_shown_alike(
    named: str, theirs: Theirs, ours: ConnectorValidator
) -> None:
    expected = _by_key(theirs.validate(named))
    found = _by_key(
        rest_responses.encode_config_infos(ours.validate_connector_config(CASES[named].config))
    )
    other_version = "connector.plugin.version" in _errors_of(expected)
    for name, infos in expected.items():
        for their, our in zip(infos, found[name], strict=True):
            assert _definition(our) == _definition(their), name
            shown, wanted = _value(our), _value(their)
            if other_version:  # Java recommends no converters then; no harm in it
                shown.pop("recommended_values")
                wanted.pop("recommended_values")
            assert shown == wanted, name


@pytest.mark.parametrize(
    "plugin",
    ["FileStreamSource", "FileStreamSink", "JsonConverter", STRING, "SimpleHeaderConverter"],
)
@pytest.mark.parametrize("version", [None, "4.3.1", "[4,)"])
def test_plugins_have_the_same_keys(
    plugin: str, *, version: str | None, java: httpx.Client, ours: ConnectorValidator
) -> None:
    params = {} if version is None else {"version": version}
    expected = java.get(f"/connector-plugins/{plugin}/config", params=params).json()
    keys = [
        rest_responses.encode_config_key_info(each)
        for each in ours.connector_plugin_config(plugin, version)
    ]
    by_name = sorted(keys, key=lambda each: str(each["name"]))
    assert [_plain(each) for each in by_name] == [
        _plain(each) for each in sorted(expected, key=lambda each: str(each["name"]))
    ]
    if version is None and plugin.startswith("File"):  # of others Java has no order of its own
        assert [each["name"] for each in keys] == [each["name"] for each in expected]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"topic": "t"}, "contains no connector type"),
        ({"connector.class": None}, "contains no connector type"),
        ({"connector.class": "Nope"}, "Failed to find any class that implements Connector and"),
        ({"connector.class": JSON}, "available connectors are: "),
        ({**SOURCE, "connector.plugin.version": "[9"}, "Unbounded range: [9"),
    ],
)
def test_what_cannot_be_validated(
    config: dict[str, str | None], *, told: str, java: httpx.Client, ours: ConnectorValidator
) -> None:
    answer = java.post("/connectors", json={"name": "n", "config": {**config, "name": "n"}})
    assert answer.status_code == 400
    assert told in answer.json()["message"]
    with pytest.raises(ConnectRestError, match=re.escape(told)) as refused:
        ours.validate_connector_config(config)
    assert refused.value.status == 400


def _by_key(infos: Any) -> dict[str, list[Any]]:
    """Mostly one each: Java reports an override of the consumer's group twice."""
    found: dict[str, list[Any]] = {}
    for each in infos["configs"]:
        found.setdefault(each["value"]["name"], []).append(each)
    return found


def _errors(infos: Any) -> dict[str, list[str]]:
    return _errors_of(_by_key(infos))


def _errors_of(by_key: Mapping[str, list[Any]]) -> dict[str, list[str]]:
    found = {
        name: [_same(error) for each in infos for error in each["value"]["errors"]]
        for name, infos in by_key.items()
    }
    return {name: told for name, told in found.items() if told}


def _same(error: str) -> str:
    """Without what may differ, for the reason given."""
    for pattern, instead in (
        # what is wrong with a regular expression is said by the language's own library
        (r"(Invalid regex: ).*", r"\1…"),
        # Java counts a class once as a converter and once as one for headers
        (r"\[4\.3\.1, 4\.3\.1\]", "[4.3.1]"),
        # we say what to do about it
        (r"(source support enabled\.).*", r"\1"),
        # Java shows a set, which has no order
        (r"BASE64, NUMERIC", "NUMERIC, BASE64"),
    ):
        error = re.sub(pattern, instead, error, flags=re.DOTALL)
    return error


def _definition(info: Any) -> Any:
    """Clients' own keys have a definition in Java alone: those clients are not ours."""
    definition = info["definition"]
    if definition is None or ".override." in info["value"]["name"]:
        return None
    return _plain(definition)


def _plain(definition: Any) -> Any:
    """Our documentation is in our own words; `order` is there for clients of older versions."""
    assert definition.get("order", definition["order_in_group"]) == definition["order_in_group"]
    return {
        name: value for name, value in definition.items() if name not in {"documentation", "order"}
    }


def _value(info: Any) -> dict[str, Any]:
    value: dict[str, Any] = info["value"]
    return value | {"errors": [_same(each) for each in value["errors"]]}
