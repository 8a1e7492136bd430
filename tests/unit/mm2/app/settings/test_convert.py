"""To the other form and back: what is in force stays what it was."""

from __future__ import annotations

import pathlib

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.adapters.config import yaml_source
from connect_runtime.system import certificates, clock
from mm2.app.settings import convert, load, mirror_maker, settings
from tests.support import examples

ENVIRONMENT = {"MM2_A_SERVERS": "a:9092", "MM2_ENABLED": "true", "MM2_TASKS": "7", "S": "s:1"}
SHAPES = sorted((pathlib.Path(__file__).parents[4] / "interop" / "shapes").glob("*.properties"))
HERE = pathlib.Path("/nowhere")


def from_yaml(text: str, folder: pathlib.Path = HERE) -> settings.Settings:
    return load.parse(text, file="c.yaml", folder=folder, environment=ENVIRONMENT)


def from_properties(text: str, folder: pathlib.Path = HERE) -> settings.Settings:
    return load.parse_properties(text, file="mm2", folder=folder, environment=ENVIRONMENT)


def to_properties(text: str) -> convert.Converted:
    root = yaml_source.parse(text).root
    assert isinstance(root, yaml_source.Section)
    return convert.to_properties(root, folder=HERE)


@pytest.fixture
def place(tmp_path):
    """What the shapes name, in the folder that their paths start at."""
    authority = certificates.Authority.create("ca", wall_ms=clock.SystemClock().wall_ms())
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    (tmp_path / "secrets.properties").write_text("b.servers=b:9092\nuser=u\ntopics=a.*\n")
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "password").write_text("hunter2")
    return tmp_path


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.stem)
def test_real_files_go_to_yaml_and_back(shape, place):
    text = load.read_text(shape).replace("${vault:u}", "u").replace("${vault:a:p}", "p")
    before = from_properties(text, place)
    there = convert.to_yaml(mirror_maker.translate(text), folder=place)
    of_workers = "is not the same for all workers"
    assert [x for x in there.unsaid if "param" not in x and not x.endswith(of_workers)] == []
    assert "hunter2" not in there.text
    elsewhere = pathlib.Path("/elsewhere")
    assert convert.differences(before, from_yaml(there.text, elsewhere)) == []
    root = yaml_source.parse(there.text).root
    assert isinstance(root, yaml_source.Section)
    back = convert.to_properties(root, folder=elsewhere)
    assert back.unsaid == ()
    assert convert.differences(before, from_properties(back.text, elsewhere)) == []


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
    text = yaml_source.render(tree)
    before = from_yaml(text)
    there = to_properties(text)
    assert there.unsaid == ()
    assert there.text.isascii()
    after = from_properties(there.text)
    assert convert.differences(before, after) == []
    back = convert.to_yaml(mirror_maker.translate(there.text), folder=HERE)
    assert back.unsaid == ()
    assert convert.differences(before, from_yaml(back.text)) == []


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        ("topics: ['a{1,2}', b]", "commas separate"),
        ("topics: ['']", "commas separate"),
    ],
)
def test_what_properties_cannot_say_is_named(flow, words):
    (line,) = to_properties(f"clusters: {{a: {{}}}}\nflows: [{{from: a, to: b, {flow}}}]\n").unsaid
    assert line.startswith("flows[0].topics: ")
    assert words in line


def test_what_yaml_cannot_say_is_named():
    text = (
        "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"
        "config.providers=env\na->b.topics=${vault:x}\n"
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "config.providers.env.param.allowlist.pattern=MM2_.*\n"
    )
    found = convert.to_yaml(mirror_maker.translate(text), folder=HERE)
    first, second = found.unsaid
    assert first == "topics: a text that looks like the placeholder ${vault:…}"
    assert second == "config.providers.env.param: providers have no bounds in YAML"


def test_a_difference_is_seen():
    text = "clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}\nflows:\n"
    one = from_yaml(text + "- {from: a, to: b}\n")
    for other, expected in (
        ("- {from: a, to: b, tasks.max: 2}\n", ["a->b"]),
        ("- {from: a, to: b, source.consumer.fetch.min.bytes: 2}\n", ["a->b: clients"]),
        ("- {from: b, to: a}\n", ["flows: ['a->b'], ['b->a']"]),
        ("- {from: a, to: b}\nmetrics: {port: 1}\n", ["metrics"]),
    ):
        assert convert.differences(one, from_yaml(text + other)) == expected
