"""What files say of workers is judged with them, at its place, as everything else."""

from __future__ import annotations

import json
import pathlib

import pytest

from connect_runtime.config.config_errors import ConfigProblem, SettingsError
from mm2.config import config_loader, flow_connector_configs

BASE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
emit.heartbeats.enabled=false
"""
TREE = {
    "clusters": {name: {"bootstrap.servers": f"{name}:1"} for name in "ab"},
    "flows": [{"from": "a", "to": "b"}],
}


def wrong(
    *, section: str = "", given: dict[str, str] | None = None, lines: str = "", **environment: str
) -> list[ConfigProblem]:
    text = json.dumps({**TREE, section: given}, indent=1) if section else BASE + lines
    parse = config_loader.parse_clusters_yaml if section else config_loader.parse_mm2_properties
    with pytest.raises(SettingsError) as caught:
        parse(text, file="f", folder=pathlib.Path("/"), environment=environment)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("section", "key", "value", "words"),
    [
        ("worker", "session.timeout.ms", "soon", "Not a number of type INT"),
        ("worker", "connect.protocol", "telepathy", "telepathy"),
        ("worker", "task.restart.max", "-2", "a whole number, or -1 for no limit"),
        ("worker", "config.storage.replication.factor", "0", "0"),
        ("rest", "listeners", "gopher://:1", "gopher"),
    ],
)
def test_of_yaml_the_sections_are_named(section, key, value, words):
    (problem,) = wrong(section=section, given={key: value})
    assert words in problem.describe("f")
    assert (problem.line, problem.key) == (17, f"{section}.{key}")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("b.session.timeout.ms = soon", "Not a number of type INT"),
        ("b.connect.protocol = telepathy", "telepathy"),
        ("task.shutdown.graceful.timeout.ms = x", "x"),
        ("task.restart.max = often", "a whole number, or -1 for no limit"),
        ("b.task.restart.max = often", "a whole number, or -1 for no limit"),
        ("b.key.converter = no.such:Converter", "no.such:Converter"),
    ],
)
def test_of_properties_javas_keys_are_named(line, words):
    (problem,) = wrong(lines=line)
    assert words in problem.describe("f")
    assert (problem.line, problem.key) == (6, line.partition(" = ")[0])


def test_listeners_of_the_internal_rest_are_judged_where_they_are_used():
    lines = "listeners = gopher://:1\n"
    config_loader.parse_mm2_properties(
        BASE + lines, file="f", folder=pathlib.Path("/"), environment={}
    )
    (problem,) = wrong(lines=lines + "dedicated.mode.enable.internal.rest = true")
    assert (problem.line, problem.key) == (6, "listeners")


def test_all_mistakes_are_told_at_once_each_once():
    lines = "b.session.timeout.ms = x\nb.connect.protocol = y\na->b.offset.lag.max = z"
    assert [each.line for each in wrong(lines=lines)] == [6, 7, 8]


def test_what_a_secret_is_is_not_told():
    (problem,) = wrong(
        section="worker", given={"session.timeout.ms": "${env:SECRET}"}, SECRET="hunter2"
    )
    assert "hunter2" not in problem.describe("f")
    assert (problem.line, problem.key) == (17, "worker.session.timeout.ms")


def test_what_java_users_write_and_acts_on_nothing_keeps_no_worker_from_running():
    lines = """b.security.protocol = SSL
ssl.protocol = TLS
b.ssl.enabled.protocols = TLSv1.3, TLSv1.2
a.sasl.mechanism = PLAIN
a.sasl.mechanisms = x
"""
    found = config_loader.parse_mm2_properties(
        BASE.replace("emit.heartbeats.enabled=false\n", "") + lines,
        file="f",
        folder=pathlib.Path("/"),
        environment={},
    )
    there, back = flow_connector_configs.plan_flows(
        found, flow_connector_configs.ALL_FLOWS, environment={}
    )
    assert there.worker_props["security.protocol"] == "SSL"
    assert not [key for key in there.worker_props if "ssl." in key]
    assert not [key for key in back.worker_props if "sasl" in key]
