from __future__ import annotations

import contextlib
import importlib
import os
import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api.config_def import Type
from connect_runtime.config.config_errors import SettingsError
from connect_runtime.system import secure_file_access
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.secure_file_access import UntrustedWriter
from connect_runtime.system.system_clock import SystemClock
from mm2.config import config_loader, java_class_placeholders, mirror_connector_config_keys
from mm2.topics.replication_policy import IdentityReplicationPolicy

BASE = """
clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}
flows: [{from: a, to: b}]
"""
SAMPLE = pathlib.Path(__file__).parents[4] / "deploy" / "clusters.yaml"


def failure(path: pathlib.Path) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        config_loader.load_config_file(path, environment={})
    return caught.value


def test_the_sample_loads():
    found = config_loader.load_config_file(SAMPLE, environment={})
    assert [flow.name for flow in found.flows] == ["east->west"]
    assert sorted(found.clusters) == ["east", "west"]


def test_what_the_sample_has_in_comments_is_right_too(tmp_path):
    lines = []
    for line in SAMPLE.read_text().splitlines():
        # Switched on: what looks like YAML behind the comment sign, further comments kept.
        match = re.fullmatch(r"(\s*)# (\s*(?:- )?[a-zA-Z][\w.]*:( .*)?|\s{4,}\S.*)", line)
        lines.append(match.group(1) + match.group(2) if match else line)
    text = "\n".join(lines) + "\n"
    assert text.count("SCRAM-SHA-512") == 1
    (tmp_path / "c.yaml").write_text(
        text.replace("/etc/mm2/north-ca.pem", str(tmp_path / "ca.pem"))
    )
    authority = CertificateAuthority.create("ca", wall_ms=SystemClock().wall_ms())
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    found = config_loader.load_config_file(
        tmp_path / "c.yaml", environment={"NORTH_PASSWORD": "x", "SPARK_SECRET": "y"}
    )
    assert sorted(found.clusters) == ["east", "north", "west"]
    assert found.clusters["north"].security.username == "mm2"
    assert found.spark.conf["spark.cores.max"] == "8"
    assert found.metrics.host == "0.0.0.0"
    assert [flow.name for flow in found.flows] == ["east->west", "west->east"]


def test_all_mistakes_of_all_sections_at_once(wrong):
    found = wrong(
        """
clusters:
  a: {bootstrap.servers: nope}
  b: {bootstrap.servers: 'b:1', linger.ms: 1}
  b: {}
flows:
- {from: a, to: c, tasks.max: x}
spark: {master: nowhere}
metrics: {port: x}
rest: {listener: x}
sparc: {}
"""
    )
    assert [problem.line for problem in found] == [3, 4, 5, 7, 7, 8, 9, 10, 11]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "sections clusters and flows"),
        ("hello", "sections clusters and flows"),
        ("- a", "sections clusters and flows"),
        ("{", "is not valid YAML"),
        ("clusters:\nflows:\n", "must be a list"),
        ("clusters: {}\nflows: []\n", "no enabled flow"),
        ("clusters: {}\n", "flows is missing"),
        ("flows: []\n", "clusters is missing"),
        ("clusters: []\nflows: []\n", "a section of keys, not a list"),
        (BASE.replace("flows:", "flow:"), "is not a known section"),
        (BASE + "defaults: x\n", "a section of keys, not a single value"),
    ],
)
def test_garbage_is_told_plainly(wrong, text, words):
    assert words in "\n".join(problem.text for problem in wrong(text))


def test_files_that_cannot_be_read(tmp_path):
    assert "No such file" in str(failure(tmp_path / "nope.yaml"))
    assert "directory" in str(failure(tmp_path))
    (tmp_path / "binary").write_bytes(b"clusters:\n\xff\xfe")
    assert f"{tmp_path}/binary:2: is not UTF-8" in str(failure(tmp_path / "binary"))
    with (tmp_path / "huge").open("wb") as stream:
        stream.truncate(5 * 1024 * 1024)
    assert "larger than" in str(failure(tmp_path / "huge"))


def test_placeholders_start_at_the_files_folder(tmp_path):
    (tmp_path / "servers").write_text("a:1\n")
    (tmp_path / "c.yaml").write_text(BASE.replace("'a:1'", "'${dir:.:servers}'"))
    found = config_loader.load_config_file(tmp_path / "c.yaml", environment={})
    assert found.clusters["a"].bootstrap_servers == ("a:1",)


SNIPPETS = st.sampled_from(
    [
        *("clusters:", "flows:", "defaults:", "spark:", "metrics:", "rest:", "\n", "\n  ", "\n- "),
        *(
            "a: ",
            "from: a",
            "to: b",
            "topics: ",
            "{",
            "}",
            "[",
            "]",
            ",",
            "'",
            "${env:X}",
            "x",
            "~",
        ),
        *(
            "bootstrap.servers: ",
            "a:1",
            "tasks.max: ",
            "conf: ",
            "&r ",
            "*r",
            "security.protocol: ",
        ),
    ]
)


@given(st.lists(SNIPPETS, max_size=30).map("".join) | st.text(max_size=60))
def test_any_text_gives_settings_or_problems_never_a_crash(text):
    with contextlib.suppress(SettingsError):
        config_loader.parse_clusters_yaml(
            text, file="c.yaml", folder=pathlib.Path("/nowhere"), environment={"X": "y"}
        )


def test_a_resource_of_strimzi_is_one_clear_mistake(wrong):
    (found,) = wrong(
        """apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: mirror}
spec:
  version: 4.1.0
  connectCluster: west
  clusters: [{alias: east, bootstrapServers: 'e:9092'}]
  mirrors: [{sourceCluster: east, targetCluster: west}]
"""
    )
    assert (found.line, found.key) == (2, "kind")
    assert "Strimzi" in found.text
    assert "clusters.yaml" in found.text


WITH_HOOKS = """
clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}
flows: [{from: a, to: b}]
hooks: {stop-producers: {command: [/bin/true]}}
"""


def test_commands_of_a_file_that_others_can_write_are_refused(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(WITH_HOOKS)
    path.chmod(0o644)
    assert config_loader.load_config_file(path, environment={}).warnings == ()
    path.chmod(0o646)
    with pytest.raises(SettingsError) as raised:
        config_loader.load_config_file(path, environment={})
    assert str(raised.value).splitlines()[0] == (
        f"{path}: hooks: can run code, but other users can write to this file; "
        f"to allow this key, run: chmod go-w {path}"
    )


@pytest.mark.parametrize(
    "value",
    ["'${env:WHO}'", '"\\x24{env:WHO}"', "!!str ${env:WHO}", "[a, '${file:/etc/shadow:a}']"],
)
def test_references_of_a_file_that_others_can_write_are_refused(tmp_path, value):
    """Otherwise any of our files could be sent to an address in the file."""
    path = tmp_path / "c.yaml"
    path.write_text(BASE + "# ${env:HOME} is fine here\nmetrics:\n  host: " + value + "\n")
    path.chmod(0o646)
    with pytest.raises(SettingsError) as raised:
        config_loader.load_config_file(path, environment={"WHO": "127.0.0.1"})
    line = BASE.count("\n") + 3
    assert (
        f"{path}:{line}: metrics.host: refers to a value outside of this file, but other users"
        in (str(raised.value))
    )


def test_commands_of_a_file_in_a_folder_that_others_can_write_are_refused(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(WITH_HOOKS)
    tmp_path.chmod(0o777)
    with pytest.raises(SettingsError) as raised:
        config_loader.load_config_file(path, environment={})
    assert str(raised.value).splitlines()[0] == (
        f"{path}: hooks: can run code, but other users can write to its directory {tmp_path}; "
        f"to allow this key, run: chmod go-w {tmp_path}"
    )


def test_a_file_of_another_user_is_warned_of_and_its_commands_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "c.yaml"
    path.write_text(BASE)
    writer = UntrustedWriter(path=path, owner=4242)
    monkeypatch.setattr(secure_file_access, "find_untrusted_file_writer", lambda *_: writer)
    assert config_loader.load_config_file(path, environment={}).format_warnings() == [
        f"{path}: user id 4242 can write to this file and thus control mm2; to prevent it, copy "
        "the file to a directory owned by root or by the user who runs this process"
    ]
    path.write_text(WITH_HOOKS)
    with pytest.raises(
        SettingsError, match="but user id 4242 can write to this file; to allow this key"
    ):
        config_loader.load_config_file(path, environment={})


def test_a_file_below_a_folder_that_others_can_write_is_refused(tmp_path):
    path = tmp_path / "inner" / "c.yaml"
    path.parent.mkdir(mode=0o755)
    path.write_text(WITH_HOOKS)
    tmp_path.chmod(0o777)
    with pytest.raises(
        SettingsError, match=f"write to its directory {tmp_path}; to allow this key"
    ):
        config_loader.load_config_file(path, environment={})


@pytest.mark.parametrize(
    ("name", "text", "refused"),
    [
        ("c.yaml", "python: /tmp/python", "spark.python"),
        (
            "c.yaml",
            "conf: {spark.driver.extraJavaOptions: '-javaagent:/tmp/x.jar'}",
            "spark.conf.spark.driver.extraJavaOptions",
        ),
        (
            "c.yaml",
            "conf: {spark.executor.memory: 2g, spark.jars: /tmp/x.jar}",
            "spark.conf.spark.jars",
        ),
        ("c.yaml", "master: k8s://https://h:1", "spark.master"),
        ("c.yaml", "master: local[4]", ""),
        ("c.yaml", "allow.insecure.spark: true", "spark.allow.insecure.spark"),
        ("m.properties", "mm2.spark.master=spark://h:1", "mm2.spark.master"),
        ("c.yaml", "{driver.host: h, conf: {spark.executor.memory: 2g}}", ""),
        ("c.yaml", "app.name: x\nworker:\n  plugin.path: /tmp/plugins", "worker.plugin.path"),
        ("m.properties", "plugin.path=/tmp/plugins", "plugin.path"),
        ("m.properties", "mm2.spark.python=/tmp/python", "mm2.spark.python"),
        ("m.properties", "mm2.spark.conf.spark.plugins=x.Y", "mm2.spark.conf.spark.plugins"),
    ],
)
def test_programs_and_options_of_spark_in_a_file_that_others_can_write_are_refused(
    tmp_path, name, text, refused
):
    path = tmp_path / name
    path.write_text(
        WITH_HOOKS.replace("hooks:", "#") + f"spark:\n  {text}\n"
        if name == "c.yaml"
        else "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\n"
        f"a->b.enabled=true\n{text}\n"
    )
    path.chmod(0o644)
    config_loader.load_config_file(path, environment={})
    path.chmod(0o666)
    if refused:
        with pytest.raises(SettingsError) as raised:
            config_loader.load_config_file(path, environment={})
        assert [each.key for each in raised.value.problems] == [refused]
    else:
        assert (
            "other users can write"
            in config_loader.load_config_file(path, environment={}).warnings[0].text
        )


@pytest.mark.parametrize(
    ("name", "line", "key"),
    [
        ("c.yaml", "replication.policy.class: sub.policy:P", "flows.replication.policy.class"),
        ("c.yaml", "transforms.x.type: sub.policy.P", "flows.transforms.x.type"),
        ("c.yaml", "predicates: {x: {type: ' sub.policy.P'}}", "flows.predicates.x.type"),
        ("m.properties", "a->b.topic.filter.class=sub.policy.P", "a->b.topic.filter.class"),
        ("m.properties", "group.filter.class=a:b:P", "group.filter.class"),
        ("m.properties", "transforms.x.type=sub.policy.P", "transforms.x.type"),
        ("m.properties", "a.sasl.login.class=sub.policy.P", "a.sasl.login.class"),
        ("m.properties", "plugin.path=/usr/lib/python3", "plugin.path"),
    ],
)
def test_classes_in_a_file_that_others_can_write_are_refused_before_they_are_imported(
    tmp_path, monkeypatch, name, line, key
):
    path = tmp_path / name
    path.write_text(
        BASE.replace("to: b", f"to: b, {line}")
        if name == "c.yaml"
        else "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\n"
        f"a->b.enabled=true\n{line}\n"
    )
    path.chmod(0o666)
    monkeypatch.setattr(importlib, "import_module", lambda _: pytest.fail("must not import"))
    with pytest.raises(SettingsError) as raised:
        config_loader.load_config_file(path, environment={})
    (problem,) = raised.value.problems
    assert problem.key == key
    assert problem.line > 0
    assert "can run code, but other users can write to this file; to allow this" in problem.text


@pytest.mark.parametrize(
    "policy", ["IdentityReplicationPolicy", java_class_placeholders.IDENTITY_POLICY]
)
def test_classes_of_kafka_are_accepted_in_a_file_that_others_can_write(tmp_path, policy):
    path = tmp_path / "c.yaml"
    path.write_text(BASE.replace("to: b", f"to: b, replication.policy.class: {policy}"))
    path.chmod(0o666)
    (found,) = config_loader.load_config_file(path, environment={}).flows
    assert isinstance(found.policy, IdentityReplicationPolicy)


def test_the_names_of_all_keys_for_classes_show_it():
    """Otherwise a class could be imported from a file that others can write."""
    for definition in (
        mirror_connector_config_keys.SOURCE_KEYS,
        mirror_connector_config_keys.CHECKPOINT_KEYS,
        mirror_connector_config_keys.HEARTBEAT_KEYS,
    ):
        for key in definition.keys.values():
            is_found = config_loader._is_class_key(key.name)
            assert is_found or key.type is not Type.CLASS, key.name


@pytest.mark.parametrize("name", ["c.yaml", "m.properties"])
def test_a_pipe_or_a_device_is_no_file(tmp_path, name):
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(SettingsError, match="cannot be read: not a regular file"):
        config_loader.load_config_file(path, environment={})


def test_a_file_that_others_can_write_is_warned_of(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(WITH_HOOKS.replace("hooks:", "#"))
    path.chmod(0o666)
    assert config_loader.load_config_file(path, environment={}).format_warnings() == [
        f"{path}: other users can write to this file and thus control mm2; to prevent it, run: "
        f"chmod go-w {path}"
    ]
