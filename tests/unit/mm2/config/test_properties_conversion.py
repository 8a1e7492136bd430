"""To the other form and back: what is in force stays what it was.

The flat properties that a YAML file stands for; that all of it survives: test_convert."""

from __future__ import annotations

import pathlib

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.config import yaml_parser
from connect_runtime.config.yaml_parser import YamlSection
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock
from mm2.config import (
    config_loader,
    dedicated_mode,
    mirror_connector_config,
    mm2_properties,
    mm2_property_keys,
    properties_conversion,
)
from mm2.config.dedicated_mode import SourceAndTarget
from mm2.config.mm2_settings import Mm2Settings
from mm2.config.properties_conversion import ConvertedFile, FlattenedFile
from tests.support import examples

ENVIRONMENT = {"MM2_A_SERVERS": "a:9092", "MM2_ENABLED": "true", "MM2_TASKS": "7", "S": "s:1"}
SHAPES = sorted((pathlib.Path(__file__).parents[3] / "interop" / "shapes").glob("*.properties"))
HERE = pathlib.Path("/nowhere")


def from_yaml(text: str, folder: pathlib.Path = HERE) -> Mm2Settings:
    return config_loader.parse_clusters_yaml(
        text, file="c.yaml", folder=folder, environment=ENVIRONMENT
    )


def from_properties(text: str, folder: pathlib.Path = HERE) -> Mm2Settings:
    return config_loader.parse_mm2_properties(
        text, file="mm2", folder=folder, environment=ENVIRONMENT
    )


def to_properties(text: str) -> ConvertedFile:
    root = yaml_parser.parse_yaml(text).root
    assert isinstance(root, YamlSection)
    return properties_conversion.convert_to_properties(root, folder=HERE)


@pytest.fixture
def place(tmp_path):
    """What the shapes name, in the folder that their paths start at."""
    authority = CertificateAuthority.create("ca", wall_ms=SystemClock().wall_ms())
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    (tmp_path / "secrets.properties").write_text("b.servers=b:9092\nuser=u\ntopics=a.*\n")
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "password").write_text("hunter2")
    return tmp_path


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.stem)
def test_real_files_go_to_yaml_and_back(shape, place):
    text = (
        config_loader.read_config_text(shape)
        .replace("${vault:u}", "u")
        .replace("${vault:a:p}", "p")
    )
    before = from_properties(text, place)
    there = properties_conversion.convert_to_yaml(
        mm2_properties.translate_properties(text), folder=place
    )
    of_workers = "differs between workers"
    assert [x for x in there.inexpressible if "param" not in x and not x.endswith(of_workers)] == []
    assert "hunter2" not in there.text
    elsewhere = pathlib.Path("/elsewhere")
    assert properties_conversion.diff_settings(before, from_yaml(there.text, elsewhere)) == []
    root = yaml_parser.parse_yaml(there.text).root
    assert isinstance(root, YamlSection)
    back = properties_conversion.convert_to_properties(root, folder=elsewhere)
    assert back.inexpressible == ()
    assert properties_conversion.diff_settings(before, from_properties(back.text, elsewhere)) == []


ALIASES = ("a", "b-1", "c.d")
PATTERN = st.sampled_from(["orders.*", r"a\.b", "x|y", " t ", "ü+", "p=q", "#no", "!c", "a:b"])
PATTERNS = st.lists(PATTERN, min_size=0, max_size=3, unique=True)
FLOW_KEYS = {
    "topics": PATTERNS,
    "topics.exclude": PATTERNS,
    "groups": PATTERNS,
    "config.properties.exclude": PATTERNS,
    "use.defaults.from": st.sampled_from(["source", "target"]),
    "replication.factor": st.sampled_from(["-1", "3"]),
    "tasks.max": st.sampled_from(["1", "9"]),
    "refresh.topics.enabled": st.booleans().map(str),
    "sync.topic.configs.interval.seconds": st.sampled_from(["5", "600"]),
    "heartbeats.replication.enabled": st.booleans().map(str),
    "admin.timeout.ms": st.just("5000"),
    "start": st.sampled_from(["earliest", "LATEST", "2026-01-31T08:00:00Z"]),
    "delivery": st.sampled_from(["auto", "transactional"]),
    "on.source.gap": st.sampled_from(["continue", "fail"]),
    "target.topics": st.sampled_from(["shared", "exclusive"]),
    "buffer.memory": st.just("2097152"),
    "offset.map.bytes": st.just("3145728"),
    "unreachable.after.seconds": st.just("30"),
    "throttle": st.just("20MB"),
    "throttle.topics": st.lists(st.sampled_from(["a.*=5MB", "b=1kB"]), max_size=2),
    "emit.checkpoints.enabled": st.just("false"),
    "source.consumer.fetch.min.bytes": st.sampled_from(["1", "2"]),
    "producer.override.request.timeout.ms": st.just("7000"),
    "source.admin.request.timeout.ms": st.just("8000"),
    "target.admin.bootstrap.servers": st.sampled_from(["t:1", "${env:S}"]),
}
CLUSTER_KEYS = {
    "request.timeout.ms": st.sampled_from(["1000", "2000"]),
    "fetch.max.bytes": st.just("1000"),
    "consumer.request.timeout.ms": st.just("3000"),
    "producer.bootstrap.servers": st.just("p:1"),
    "admin.retry.backoff.ms": st.just("50"),
}
TREES = st.fixed_dictionaries(
    {
        "clusters": st.fixed_dictionaries(
            {
                alias: st.fixed_dictionaries(
                    {
                        "bootstrap.servers": st.sampled_from(
                            [f"{alias}:1", "${env:S}", ["x:1", "y:2"]]
                        )
                    },
                    optional=CLUSTER_KEYS,
                )
                for alias in ALIASES
            }
        ),
        "flows": st.tuples(
            *(
                st.fixed_dictionaries(
                    {"from": st.just(source), "to": st.just(target)},
                    optional={**FLOW_KEYS, "enabled": st.just("true")},
                )
                for source, target in (("a", "b-1"), ("b-1", "a"), ("c.d", "a"))
            )
        ).map(list),
    },
    optional={
        "defaults": st.fixed_dictionaries({}, optional=FLOW_KEYS),
        "metrics": st.just({"port": "0"}),
        "spark": st.just({"ui": "true", "conf": {"spark.executor.memory": "1g"}}),
    },
)


@hypothesis.settings(max_examples=examples.of(40), deadline=None)
@given(TREES)
def test_any_yaml_goes_to_properties_and_back(tree):
    tree.setdefault("defaults", {})["replication.policy.separator"] = "__"
    text = yaml_parser.format_yaml(tree)
    before = from_yaml(text)
    there = to_properties(text)
    assert there.inexpressible == ()
    assert there.text.isascii()
    after = from_properties(there.text)
    assert properties_conversion.diff_settings(before, after) == []
    back = properties_conversion.convert_to_yaml(
        mm2_properties.translate_properties(there.text), folder=HERE
    )
    assert back.inexpressible == ()
    assert properties_conversion.diff_settings(before, from_yaml(back.text)) == []


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        ("topics: ['a{1,2}', b]", "commas separate"),
        ("topics: ['']", "commas separate"),
    ],
)
def test_what_properties_cannot_say_is_named(flow, words):
    (line,) = to_properties(
        f"clusters: {{a: {{}}}}\nflows: [{{from: a, to: b, {flow}}}]\n"
    ).inexpressible
    assert line.startswith("flows[0].topics: ")
    assert words in line


def test_what_yaml_cannot_say_is_named():
    text = (
        "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"
        "config.providers=env\na->b.topics=${vault:x}\n"
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "config.providers.env.param.allowlist.pattern=MM2_.*\n"
    )
    found = properties_conversion.convert_to_yaml(
        mm2_properties.translate_properties(text), folder=HERE
    )
    first, second = found.inexpressible
    assert first == "topics: a literal text that looks like the placeholder ${vault:…}"
    assert second == (
        "config.providers.env.param: a YAML file has no equivalent of allowed.paths and "
        "allowlist.pattern: remove the restriction, or keep the properties file"
    )


def test_a_difference_is_seen():
    text = "clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}\nflows:\n"
    one = from_yaml(text + "- {from: a, to: b}\n")
    for other, expected in (
        ("- {from: a, to: b, tasks.max: 2}\n", ["a->b"]),
        ("- {from: a, to: b, source.consumer.fetch.min.bytes: 2}\n", ["a->b: clients"]),
        ("- {from: b, to: a}\n", ["flows: ['a->b'], ['b->a']"]),
        ("- {from: a, to: b}\nmetrics: {port: 1}\n", ["metrics"]),
    ):
        assert properties_conversion.diff_settings(one, from_yaml(text + other)) == expected


TEXT = """
clusters:
  a: {bootstrap.servers: 'a:1', request.timeout.ms: 5, sasl.jaas.config: '${file:s.p:k}'}
  b: {bootstrap.servers: [b:1, b:2], ssl.truststore.location: ca.pem}
defaults: {tasks.max: 4, start: latest}
flows:
- {from: a, to: b, topics: [x, y], replication.policy.class: identityreplicationpolicy}
- {from: b, to: a, enabled: false}
"""
ENDS = SourceAndTarget("a", "b")


def flat(text: str = TEXT) -> FlattenedFile:
    root = yaml_parser.parse_yaml(text).root
    assert isinstance(root, YamlSection)
    return properties_conversion.flatten_file(root, folder=pathlib.Path("/conf"))


def props(text: str = TEXT) -> dict[str, str]:
    return {pair.key: pair.value for pair in flat(text).pairs}


def test_connectors_read_what_the_file_says():
    given = props()
    assert dedicated_mode.list_flows(given) == [ENDS]
    found = mirror_connector_config.parse_source_config(
        dedicated_mode.derive_connector_config(given, ENDS, "MirrorSourceConnector")
    )
    assert (found.common.source, found.common.target, found.flow.tasks_max) == ("a", "b", 4)
    assert found.flow.topics.patterns == ("x", "y")
    assert not found.flow.policy.renames_topics
    assert found.flow.start.kind.value == "latest"


def test_secrets_and_paths_stay_what_they_were():
    given = props()
    assert given["a.sasl.jaas.config"] == "${file:/conf/s.p:k}"
    assert given["config.providers"] == "file"
    assert given["config.providers.file.class"].endswith("FileConfigProvider")
    assert given["b.ssl.truststore.location"] == "/conf/ca.pem"
    assert given["b.bootstrap.servers"] == "b:1,b:2"


def test_a_property_for_all_clients_is_said_of_each_kind():
    assert {key for key in props() if key.endswith("request.timeout.ms")} == {
        f"a.{each}.request.timeout.ms" for each in ("consumer", "producer", "admin")
    }


def test_what_is_made_for_a_flow_has_as_many_replicas_as_its_topics():
    given = props(TEXT.replace("tasks.max: 4", "replication.factor: 7"))
    worker = dedicated_mode.derive_worker_config(given, ENDS)
    assert worker["offset.storage.replication.factor"] == "7"
    checkpoints = dedicated_mode.derive_connector_config(given, ENDS, "MirrorCheckpointConnector")
    assert checkpoints["checkpoints.topic.replication.factor"] == "7"


THREE = """
clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}, c: {bootstrap.servers: c}}
flows:
- {from: a, to: b, replication.factor: 2}
- {from: c, to: b, replication.factor: 10}
- {from: a, to: c, replication.factor: 3}
- {from: b, to: c, replication.factor: 7, enabled: false}
"""


@pytest.mark.parametrize("turned", [False, True])
def test_workers_of_a_cluster_have_the_largest_factor_of_its_flows(turned):
    """Whichever flow is first: their topics are as safe as any that they mirror."""
    lines = THREE.splitlines(keepends=True)
    given = props("".join([*lines[:3], *(reversed(lines[3:]) if turned else lines[3:])]))
    for ends, factor in ((ENDS, "10"), (SourceAndTarget("a", "c"), "3")):
        worker = dedicated_mode.derive_worker_config(given, ends)
        assert {worker[key] for key in mm2_property_keys.WORKER_FACTOR_KEYS} == {factor}


def test_a_stated_factor_goes_before_the_clusters_own():
    given = props(THREE.replace("replication.factor: 10", "replication.factor: -1"))
    assert (
        dedicated_mode.derive_worker_config(given, ENDS)["config.storage.replication.factor"] == "2"
    )


def test_factors_that_cannot_be_compared_have_to_be_stated():
    text = THREE.replace("replication.factor: 10", "replication.factor: '${env:F}'")
    (found,) = flat(text).inexpressible
    assert (found.line, found.key) == (5, "flows[1].replication.factor")
    assert "config.storage.replication.factor" in found.text
    stated = "".join(f"  {key}: 3\n" for key in mm2_property_keys.WORKER_FACTOR_KEYS)
    assert flat(f"{text}worker:\n{stated}").inexpressible == ()


def test_checkpoints_and_groups_are_a_matter_of_seconds_unless_something_else_is_asked_for():
    names = ("emit.checkpoints.interval.seconds", "sync.group.offsets.interval.seconds")
    for name in names:
        assert props()[name] == "5"
        asked = props(TEXT.replace("tasks.max: 4", f"{name}: 60"))
        assert "60" in {value for key, value in asked.items() if key.endswith(name)}


def test_heartbeats_are_off_unless_asked_for():
    assert props()["emit.heartbeats.enabled"] == "false"
    asked = props(TEXT.replace("tasks.max: 4", "emit.heartbeats.enabled: true"))
    assert len(dedicated_mode.list_flows(asked)) == 2


def test_every_property_says_where_it_is_from():
    found = {pair.key: (pair.line, pair.path) for pair in flat().pairs}
    assert found["a->b.topics"] == (7, "flows[0].topics")
    assert found["tasks.max"] == (5, "defaults.tasks.max")
    assert found["a.consumer.request.timeout.ms"] == (3, "clusters.a.request.timeout.ms")


@pytest.mark.parametrize("listed", ["['x{1,2}']", "['']"])
def test_a_list_whose_items_hold_commas_cannot_be_said(listed):
    (found,) = flat(TEXT.replace("[x, y]", listed)).inexpressible
    assert (found.line, found.key) == (7, "flows[0].topics")
