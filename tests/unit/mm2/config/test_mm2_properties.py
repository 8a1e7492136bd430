"""What becomes of the keys of `mm2.properties`; that values mean what Java makes of them is shown
in tests/interop."""

from __future__ import annotations

import contextlib
import pathlib

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.config.config_errors import ConfigProblem, SettingsError
from mm2.config import config_loader, mm2_properties
from mm2.config.mm2_settings import Mm2Settings
from mm2.topics.flow_config import DeliveryMode, StartPositionKind
from mm2.topics.topic_filters import NameFilter

BASE = """clusters = a, b
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
a->b.enabled = true
"""


@pytest.fixture
def read(tmp_path):
    """Settings of the base and these lines, the first of which is line 5."""

    def from_lines(*lines: str, base: str = BASE, **environment: str) -> Mm2Settings:
        text = base + "\n".join(lines)
        return config_loader.parse_mm2_properties(
            text, file="mm2.properties", folder=tmp_path, environment=environment
        )

    return from_lines


@pytest.fixture
def wrong(read):
    def from_lines(*lines: str, base: str = BASE) -> list[ConfigProblem]:
        with pytest.raises(SettingsError) as caught:
            read(*lines, base=base)
        return list(caught.value.problems)

    return from_lines


def test_a_flow_with_what_it_inherits(read):
    found = read("tasks.max = 4", "topics = x, y", "a->b.topics = z")
    (flow,) = found.flows
    assert (flow.name, flow.tasks_max, flow.topics.include.items) == ("a->b", 4, ("z",))
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topics.exlude = x", "did you mean 'topics.exclude'?"),
        ("a->b.topcs = x", "has no effect: unknown key; did you mean 'topics'?"),
        ("a.sasl.mechanisms = x", "has no effect: unknown key; did you mean 'sasl.mechanism'?"),
        ("a.consumer.fetch.mn.bytes = 1", "did you mean 'fetch.min.bytes'?"),
        ("a->c.enabled = true", "does not name a flow between two of the clusters a, b"),
        ("a.request.timeout.ms = 1", "use a.consumer.request.timeout.ms"),
        ("a.producer.linger.ms = 1", "record batches are copied unchanged"),
        ("a.consumer.isolation.level = read_uncommitted", "only records of committed"),
        ("consumer.fetch.min.bytes = 1", "use A.consumer.fetch.min.bytes"),
        ("use.defaults.from = source", "use A->B.use.defaults.from"),
        ("offset.flush.interval.ms = 1", "for flows to cluster B, use B.offset.flush.interval.ms"),
        ("a->b.producer.acks = 1", "use the prefix A->B.producer.override."),
        (
            "a->b.consumer.bootstrap.servers = x:1",
            "bootstrap.servers of cluster a takes precedence",
        ),
        ("a->b.source.cluster.fetch.min.bytes = 1", "use the prefix of the cluster"),
        ("a->b.name = x", "the name of a flow consists of its two cluster aliases"),
        ("a->b.groups = ${vault:x}", "the placeholder of provider 'vault' is used literally"),
        ("mm2.metrics.prt = 1", "has no effect: unknown key; did you mean 'port'?"),
        ("a->b.enabled = true", ""),
    ],
)
def test_what_has_no_effect_is_told_by_its_key(read, line, words):
    lines = [line for line in read(line).format_warnings() if words in line]
    assert len(lines) == 1
    key = line.partition(" = ")[0]
    place = "mm2.properties:4" if key == "a->b.enabled" else "mm2.properties:5"
    assert lines[0].startswith(f"{place}: {key}: ")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topics.blacklist = x", "use topics.exclude"),
        ("a->b.transforms = route", "transforms.route.type is missing"),
        ("topic.filter.class = com.example.Mine", "class com.example.Mine does not exist"),
        ("value.converter = org.apache.kafka.connect.json.JsonConverter", "not supported yet"),
        ("replication.policy.class = Mine", "is not allowed"),
        ("a->b.tasks.max = many", "is not allowed; given: 'many'"),
        ("tasks.max = many", "is not allowed; given: 'many'"),
        ("a.consumer.interceptor.classes = x.Y", "Java classes"),
        ("a.consumer.auto.offset.reset = none", "allowed: earliest or latest"),
        ("a.security.protocol = SLL", "SLL"),
        ("security.protocol = SLL", "SLL"),
        ("sync.topic.acls.enabled = perhaps", "is not allowed"),
        ("a->b.tasks.max = \\u00zz", "four hexadecimal digits"),
    ],
)
def test_what_would_change_the_data_is_refused_by_its_key(wrong, line, words):
    found = wrong(line)
    assert words in found[0].describe("f")
    assert found[0].line == 5
    if "u00" not in line:
        assert {each.key for each in found} == {line.partition(" = ")[0]}


@pytest.mark.parametrize(
    ("base", "key", "words"),
    [
        ("", "clusters", "is missing"),
        ("clusters = \n", "clusters", "is missing"),
        ("clusters=a,b\na.bootstrap.servers=a:1\na->b.enabled=true\n", "b",
         "bootstrap.servers is missing"),
        (BASE.replace("true", "false"), "", "no flow is enabled: set A->B.enabled"),
        (BASE + "config.providers=x\n", "config.providers.x.class", "is missing"),
        (BASE + "config.providers=x\nconfig.providers.x.class=com.Vault\n",
         "config.providers.x.class", "is not a supported provider class"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_says_what_is_missing(wrong, base, key, words):
    (problem,) = wrong(base=base)
    assert problem.key == key
    assert words in problem.text


def test_auto_offset_reset_is_where_a_flow_starts(read):
    for lines, at in (
        ((), "earliest"),
        (("a.consumer.auto.offset.reset=latest",), "latest"),
        (("a->b.consumer.auto.offset.reset=latest",), "latest"),
        (("a.consumer.auto.offset.reset=earliest", "a->b.consumer.auto.offset.reset=latest"),
         "earliest"),
        (("a.consumer.auto.offset.reset=earliest",
          "a->b.source.consumer.auto.offset.reset=latest"), "latest"),
        (("a.consumer.auto.offset.reset=latest", "a->b.start=earliest"), "earliest"),
    ):  # fmt: skip
        (flow,) = read(*lines).flows
        assert flow.start.kind is StartPositionKind(at), lines


def test_our_own_sections_and_keys(read):
    found = read(
        "mm2.spark.engine = inline",
        "mm2.spark.conf.spark.executor.memory = 1g",
        "mm2.metrics.port = 1",
        "a->b.throttle = 5MB",
        "throttle.topics = x.*=1MB, y=2MB",
        "delivery = transactional",
    )
    assert found.spark.engine == "inline"
    assert found.spark.conf == {"spark.executor.memory": "1g"}
    assert found.metrics.port == 1
    (flow,) = found.flows
    assert flow.throttles.flow == 5_000_000
    assert [flow.throttles.get_topic_throttle(name) for name in ("xx", "y", "z")] == [
        10**6,
        2 * 10**6,
        None,
    ]
    assert flow.delivery is DeliveryMode.TRANSACTIONAL
    assert found.warnings == ()


def test_providers_are_bounded_as_declared(read, wrong, tmp_path):
    (tmp_path / "in").mkdir()
    for folder in (tmp_path, tmp_path / "in"):
        (folder / "s.properties").write_text("tasks=3\n")
    package = "org.apache.kafka.common.config.provider"
    declared = (
        "config.providers = f, e",
        f"config.providers.f.class = {package}.FileConfigProvider",
        f"config.providers.f.param.allowed.paths = {tmp_path / 'in'}",
        f"config.providers.e.class = {package}.EnvVarConfigProvider",
        "config.providers.e.param.allowlist.pattern = MM2_.*",
    )
    (flow,) = read(*declared, "a->b.tasks.max = ${f:in/s.properties:tasks}").flows
    assert flow.tasks_max == 3
    (flow,) = read(*declared, "a->b.tasks.max = ${e:MM2_T}", MM2_T="4").flows
    assert flow.tasks_max == 4
    for value, words in (
        ("${f:s.properties:tasks}", "is not in allowed.paths"),
        ("${f:in/../s.properties:tasks}", "is not in allowed.paths"),
        ("${e:HOME}", "allowlist.pattern"),
        ("${e:MM2_NONE}", "is not set"),
    ):
        (problem,) = wrong(*declared, f"a->b.tasks.max = {value}")
        assert words in problem.text


def test_a_key_that_is_here_twice_is_told(read):
    (warning,) = read("tasks.max = 2", "tasks.max = 3").warnings
    assert (warning.line, warning.key) == (5, "tasks.max")
    assert warning.text == "has no effect: the key is set again on line 6"


def test_files_are_iso_8859_1_and_that_is_told(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_bytes((BASE + "# caf\u00e9\na->b.topics = caf\u00e9|t\\u00fc\n").encode("utf-8"))
    found = config_loader.load_config_file(path, environment={})
    names = found.flows[0].topics
    assert isinstance(names, NameFilter)
    assert names.include.items == ("caf\u00c3\u00a9|t\u00fc",)
    (line,) = found.format_warnings()
    assert line.startswith(f"{path}:6: has non-ASCII characters")
    assert line.endswith("use \\uXXXX")


def test_an_alias_with_a_dot_has_its_own_keys(read):
    base = (
        "clusters = us, us.east\nus.bootstrap.servers = u:1\nus.east.bootstrap.servers = e:1\n"
        "us->us.east.enabled = true\nus->us.east.replication.policy.separator = _\n"
    )
    found = read("us.east.producer.request.timeout.ms = 9000", base=base)
    assert found.warnings == ()
    clients = found.get_clients(found.flows[0])
    assert clients.producer.properties["request.timeout.ms"] == "9000"


@pytest.mark.parametrize("line", ["b->a.enabled = true", "enabled = true"])
def test_clients_of_clusters_at_the_end_of_a_flow_are_taken_however_it_is_switched_on(read, line):
    found = read(f"{line}\na.producer.request.timeout.ms = 1001\nb.consumer.fetch.min.bytes = 7")
    assert not [line for line in found.format_warnings() if "no flow of this file" in line]
    (back,) = [flow for flow in found.flows if flow.name == "b->a"]
    assert found.get_clients(back).producer.properties["request.timeout.ms"] == "1001"
    assert found.get_clients(back).consumer.properties["fetch.min.bytes"] == "7"


def test_of_two_aliases_the_longer_one_is_meant(read):
    base = (
        "clusters = us, us.east, eu\nus.bootstrap.servers = u:1\nus.east.bootstrap.servers = e:1\n"
        "eu.bootstrap.servers = f:1\neu->us.east.enabled = true\n"
        "replication.policy.separator = _\n"
    )
    assert [flow.name for flow in read(base=base).flows] == ["eu->us.east"]


LOGIN = (
    "sasl.mechanism = PLAIN",
    "sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="u" password="hunter2";',
)


def test_a_login_at_the_top_is_for_clusters_that_name_a_protocol(read):
    """A worked example of MirrorMaker 2: one cluster is secured, the other is not."""
    found = read("b.security.protocol = SASL_SSL", *LOGIN)
    assert found.clusters["b"].security.username == "u"
    assert found.clusters["a"].security.protocol == "PLAINTEXT"
    assert "sasl.jaas.config" not in found.clusters["a"].properties
    of_login = [each for each in found.warnings if "has no effect" in each.text]
    assert [(each.line, each.key) for each in of_login] == [
        (6, "sasl.mechanism"),
        (7, "sasl.jaas.config"),
    ]
    for line in (each.describe("f") for each in of_login):
        assert "has no effect on cluster a: security.protocol of this cluster is not set" in line
        assert "hunter2" not in line


@pytest.mark.parametrize(
    "line",
    [
        "a.consumer.security.protocol = SASL_PLAINTEXT",
        "a->b.source.consumer.security.protocol = SASL_PLAINTEXT",
        "b->a.target.admin.security.protocol = SASL_PLAINTEXT",
        "a.security.protocol = SASL_PLAINTEXT",
        "security.protocol = SASL_PLAINTEXT",
    ],
)
def test_what_some_client_of_a_cluster_needs_is_not_taken_away(line):
    text = BASE + "\n".join((line, *LOGIN))
    translated = mm2_properties.translate_properties(text)
    assert not [each for each in translated.warnings if "on cluster a" in each.text]


def test_a_login_without_any_protocol_is_a_mistake(wrong):
    assert {each.key for each in wrong(*LOGIN)} == {"sasl.mechanism", "sasl.jaas.config"}


TLS = (
    "security.protocol = SSL",
    "ssl.protocol = TLS",
    "ssl.enabled.protocols = TLSv1.3, TLSv1.2",
    "a.consumer.ssl.keymanager.algorithm = SunX509",
    "b.ssl.trustmanager.algorithm = PKIX",
)


def test_what_java_users_write_of_tls_and_is_so_here_need_not_be_taken_away(read, wrong):
    found = read(*TLS)
    assert found.warnings == ()
    assert {each.security.protocol for each in found.clusters.values()} == {"SSL"}
    (problem,) = wrong(*TLS, "b.ssl.enabled.protocols = TLSv1.2")
    assert (problem.line, problem.key) == (10, "b.ssl.enabled.protocols")


def test_a_line_of_a_key_is_not_told(read):
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
    (warning,) = read(line).format_warnings()
    assert warning.startswith("mm2.properties:5: [hidden]: has no effect")
    assert "MII" not in warning


def test_a_key_holds_nothing_that_a_terminal_obeys(read):
    (warning,) = read("\\u001b[31m = x").format_warnings()
    assert "\x1b" not in warning
    assert r"\x1b[31m" in warning


PIECES = st.sampled_from(
    [
        *("clusters", "a", "b", ".", "->", "=", "\n", ",", " ", "bootstrap.servers", ":1", "x"),
        *("enabled", "true", "topics", "consumer.", "producer.", "admin.", "source.", "cluster."),
        *("auto.offset.reset", "latest", "config.providers", "class", "${x:y}", "mm2.spark.", "["),
        *("sasl.", "mechanism", "security.protocol", "override.", "transforms", "\\", "flows["),
    ]
)


@hypothesis.settings(deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_text_gives_settings_or_problems_never_a_crash(text):
    for whole in (text, BASE + text):
        with contextlib.suppress(SettingsError):
            config_loader.parse_mm2_properties(
                whole, file="f", folder=pathlib.Path("/nowhere"), environment={}
            )
            assert mm2_properties.translate_properties(whole).problems == ()
