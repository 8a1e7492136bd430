"""`mm2.properties` as people have them: in force is what Java's own parser makes of them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.config import java_properties
from connect_runtime.config.config_errors import SettingsError
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock
from mm2.config import config_loader, dedicated_mode, mm2_property_keys
from mm2.config.mm2_settings import Mm2Settings
from tests.interop import effective, java_settings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

SHAPES = sorted(Path(__file__).with_name("shapes").glob("*.properties"))
ENVIRONMENT = {"MM2_A_SERVERS": "a:9092,a2:9092", "MM2_ENABLED": "true", "MM2_TASKS": "7"}
PROBES = {
    "topics": [
        *("orders", "orders.eu", "payments", "catalog.x", "catalog.draft", "catalog.no", "prices"),
        *(
            "sensors_a",
            "alarms",
            "x1",
            "t1",
            "public-a",
            "secret",
            "a.b",
            "c.d",
            "c\t",
            "cx",
            "axb",
        ),
        *("__consumer_offsets", "mm2-offsets.A.internal", "x.internal", "x-internal", "t.replica"),
        *("heartbeats", "primary.orders", "backup.orders", "primary.heartbeats", "eu__t", "B.x1"),
        *(
            "us.east__heartbeats",
            "us.east__t",
            "old.checkpoints.internal",
            "mm2-configs.old.internal",
            "core_t",
        ),
    ],
    "groups": ["console-consumer-1", "connect-a", "shop-a", "shop-test", "g", "=", ":  g1", "__g"],
    "configs": [
        *("retention.ms", "retention.bytes", "cleanup.policy", "min.insync.replicas"),
        *("message.timestamp.type", "unclean.leader.election.enable", "segment.bytes"),
    ],
}
ODD_TEXT = ("a", "b", "=", ":", " ", "\t", "\f", "\n", "\r", "\r\n", "\\", "#", "!", "\\u0041", "é")


def fill(folder: Path) -> list[Path]:
    """The shapes, and the files that they name."""
    for shape in SHAPES:
        shutil.copy(shape, folder)
    authority = CertificateAuthority.create("ca", wall_ms=SystemClock().wall_ms())
    (folder / "ca.pem").write_bytes(authority.certificate_pem)
    (folder / "secrets.properties").write_text(
        "b.servers=b:9092\nuser = someone\ntopics=\\u0061.*,b\\\\.c\n"
    )
    (folder / "mounted").mkdir()
    (folder / "mounted" / "password").write_text("hunter2")
    return sorted(folder / shape.name for shape in SHAPES)


def odd_files(folder: Path, count: int) -> list[Path]:
    """Properties of every awkward spelling; the same each time."""
    chance = random.Random(11)
    folder.mkdir()
    made = []
    for number in range(count):
        made.append(folder / f"{number}.properties")
        text = "".join(chance.choices(ODD_TEXT, k=chance.randint(1, 24)))
        made[-1].write_bytes(text.encode("iso-8859-1"))
    return made


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("properties")


@pytest.fixture(scope="module")
def java(place: Path) -> dict[str, Any]:
    """Java's answer for all shapes and all odd files."""
    return java_settings.ask(
        place,
        files=fill(place),
        properties=odd_files(place / "odd", 400),
        probes=PROBES,
        environment=ENVIRONMENT,
    )


def read(path: Path) -> Mm2Settings:
    return config_loader.parse_mm2_properties(
        config_loader.read_config_text(path),
        file=str(path),
        folder=path.parent,
        environment=ENVIRONMENT,
    )


def compare(found: Mm2Settings, java: dict[str, Any]) -> list[str]:
    """What differs between our settings of a file and Java's."""
    running = {name for name, flow in java.items() if flow["enabled"]}
    ours = {flow.name: flow for flow in found.flows}
    lines = [f"{name} runs on one side only" for name in sorted(running ^ ours.keys())]
    for name in sorted(running & ours.keys()):
        here = effective.flow_settings(found, ours[name], PROBES)
        there = effective.comparable(java[name])
        lines += [f"{name}: {line}" for line in effective.differences(here, there)]
    return lines


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.stem)
def test_a_real_file_has_the_same_settings_as_in_java(java, place, shape):
    path = place / shape.name
    assert compare(read(path), java["files"][str(path)]) == []


def test_there_are_ten_of_them_and_they_differ(java):
    assert len(SHAPES) == 10
    running = [
        name for flows in java["files"].values() for name, flow in flows.items() if flow["enabled"]
    ]
    assert len(running) >= 18


PLANTED = [
    ("A->B.tasks.max = 3", "A->B.tasks.max = 2", "tasks.max"),
    ("A->B.topics = x.*", "A->B.topics = x.+z", "topics"),
    ("A->B.use.defaults.from = source", "", "configs"),
    ("A->B.admin.timeout.ms = 90000", "", "admin.timeout"),
    ("A.consumer.request.timeout.ms = 41000", "", "consumer"),
    ("A->B.admin.retry.backoff.ms = 150", "A->B.admin.retry.backoff.ms = 151", "admin"),
    ("A->B.producer.override.request.timeout.ms = 33000", "", "producer"),
    ("A.consumer.auto.offset.reset = latest", "", "start"),
    ("B->A.enabled = true", "B->A.enabled = false", "runs on one side"),
]


@pytest.mark.parametrize(("line", "other", "words"), PLANTED)
def test_a_planted_difference_is_found(java, place, line, other, words):
    path = place / "overrides_per_flow.properties"
    text = config_loader.read_config_text(path)
    assert f"\n{line}\n" in text
    found = config_loader.parse_mm2_properties(
        text.replace(f"\n{line}\n", f"\n{other}\n"), file="x", folder=place, environment={}
    )
    lines = compare(found, java["files"][str(path)])
    assert lines
    assert words in "\n".join(lines)


def test_every_spelling_is_read_as_by_java(java, place):
    differing = []
    for number, expected in enumerate(java["properties"]):
        text = config_loader.read_config_text(place / "odd" / f"{number}.properties")
        if java_properties.parse_properties(text) != expected:
            differing.append((text, expected))
    assert differing == []
    assert sum(len(pairs) for pairs in java["properties"]) > 400


def test_no_key_of_java_is_unknown(java):
    """A new release of Kafka may bring some: each needs an answer here."""
    found = java["keys"]
    assert set(found["client"]) == mm2_property_keys.CLIENT_KEYS
    ours = mm2_property_keys.CONNECTOR_KEYS | mm2_property_keys.CLIENT_KEYS | {"config.providers"}
    assert set(found["connector"]) - ours == set()
    assert set(found["top"]) - mm2_property_keys.REST_KEYS - mm2_property_keys.CLIENT_KEYS == {
        "clusters",
        "config.providers",
    }
    never = {"config.providers", "internal.throw.on.fetch.stable.offset.unsupported"}
    clients = set(found["clients"]) - never
    assert [
        name
        for name in clients
        if not (
            mm2_property_keys.is_validated_property(name)
            or mm2_property_keys.explain_ineffective_property(name)
        )
    ] == []


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.stem)
def test_nothing_is_ignored_without_a_word(place, shape):
    """Taken out one by one, each key changes what is in force, or the lines that are told."""
    text = config_loader.read_config_text(place / shape.name)
    whole = summary(text, place)
    pairs = {pair.key: pair for pair in java_properties.parse_property_entries(text)}
    silent = []
    for key in pairs:
        others = (pair for name, pair in pairs.items() if name != key)
        less = "\n".join(java_properties.format_property(pair.key, pair.value) for pair in others)
        if summary(less, place) == whole:
            silent.append(key)
    assert set(silent) <= SAID_ANYWAY


SAID_ANYWAY = {
    "A->B.emit.heartbeats.enabled",
    "A.consumer.isolation.level",
    "B.producer.acks",
    "c->a.emit.heartbeats.enabled",
    "config.providers.env.param.allowlist.pattern",
    "emit.heartbeats.enabled",
    "eu.producer.enable.idempotence",
    "group.filter.class",
    "key.converter",
    "old->new.sync.topic.configs.enabled",
    "old->new.topics",
    "refresh.topics.enabled",
    "sync.topic.acls.enabled",
    "topic.filter.class",
    "us.east->eu.consumer.isolation.level",
    "us.east.consumer.isolation.level",
    "value.converter",
}
"""Keys of the shapes that ask for what is so anyway."""


def summary(text: str, folder: Path) -> object:
    """What a file adds up to, with its warnings, or its mistakes."""
    try:
        found = config_loader.parse_mm2_properties(
            text, file="x", folder=folder, environment=ENVIRONMENT
        )
    except SettingsError as error:
        return [(each.key, each.text) for each in error.problems]
    clients = {flow.name: found.get_clients(flow) for flow in found.flows}
    told = {(each.key, each.text) for each in found.warnings}
    resolved = found.flat.resolve(found.flat.props)
    runs = {
        str(ends): (
            dedicated_mode.derive_worker_config(resolved, ends),
            dedicated_mode.derive_connector_configs(resolved, ends),
        )
        for ends in dedicated_mode.list_flows(resolved)
    }
    rest = {key: resolved.get(key) for key in mm2_property_keys.REST_KEYS}
    return found.effective, clients, runs, rest, {key for key, _ in told}
