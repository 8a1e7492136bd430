from __future__ import annotations

import os
import pathlib

import pytest

from connect_runtime.config import properties_file
from connect_runtime.config.config_errors import SettingsError
from connect_runtime.config.properties_file import ErrorCollector

PROVIDERS = """config.providers=env,file
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
"""


def parse(content: str, folder: pathlib.Path = pathlib.Path("/"), **environment: str):
    return properties_file.parse_properties_file(
        content, file="w.properties", folder=folder, environment=environment
    )


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            "plugin.path=/tmp/x",
            "w.properties:2: plugin.path: can run code, but other users",
        ),
        ("mm2.spark.python=/tmp/x", "w.properties:2: mm2.spark.python: can run code, but"),
        ("mm2.spark.conf.spark.driver.extraJavaOptions=-javaagent:/tmp/x.jar", "can run code"),
        ("mm2.spark.master=k8s://https://h:1", "mm2.spark.master: can run code, but"),
        ("mm2.spark.master=local-cluster[1,1,1024]", "mm2.spark.master: can run code, but"),
        ("mm2.spark.allow.insecure.spark=true", "can run code, but"),
        ("file.stream.allowed.paths=/", "can give users of the REST API access to your files, but"),
        ("config.providers=file", "can give users of the REST API access to your files, but"),
        (
            "a=${file:/etc/shadow:root}",
            "w.properties:2: a: refers to a value outside of this file, but",
        ),
        ("a=$\\{file:/etc/shadow:root}", "w.properties:2: a: refers to a value"),
        ("a=\\u0024{file:/etc/shadow:root}", "w.properties:2: a: refers to a value"),
        ("a=$\\\n  {file:/etc/shadow:root}", "w.properties:2: a: refers to a value"),
        ("a=x\\\n#${file:/etc/shadow:root}", "w.properties:2: a: refers to a value"),
        ("a=${a+b:/etc/shadow:root}", "w.properties:2: a: refers to a value"),
    ],
)
def test_a_file_that_others_can_write_runs_and_reads_nothing(tmp_path, line, complaint):
    path = tmp_path / "w.properties"
    path.write_text(f"#a=${{env:HOME}}\n{line}\n")
    path.chmod(0o644)
    assert properties_file.read_properties_text(path).endswith(f"{line}\n")
    path.chmod(0o646)
    with pytest.raises(SettingsError) as raised:
        properties_file.read_properties_text(path)
    assert complaint in str(raised.value)


def test_of_a_harmless_file_that_others_can_write_is_warned(tmp_path, caplog):
    path = tmp_path / "w.properties"
    path.write_text("#a=${env:HOME}\nmm2.spark.master=local[4]\nmm2.spark.ui=true\na=b\n")
    path.chmod(0o646)
    assert properties_file.read_properties_text(path).endswith("a=b\n")
    assert "other users can write to this file; to prevent this, run: chmod go-w" in caplog.text


def test_placeholders_of_declared_providers_are_filled(tmp_path):
    (tmp_path / "secrets.properties").write_text("password=hush\n")
    given = parse(
        PROVIDERS + "a=x${env:NAME}\nb=${file:secrets.properties:password}\nc=${vault:a:b}\n",
        tmp_path,
        NAME="y",
    )
    assert (given.values["a"], given.values["b"], given.values["c"]) == (
        "xy",
        "hush",
        "${vault:a:b}",
    )
    assert given.provided_keys == {"a", "b"}
    assert given.unresolved_keys == frozenset()
    assert "hush" not in repr(given)
    (told,) = given.warnings
    assert told.describe("w") == (
        "w:6: c: contains a ${vault:…} reference, which is not resolved:"
        " config.providers does not declare 'vault'"
    )


def test_what_cannot_be_filled_is_refused_with_its_line():
    given = parse(PROVIDERS + "a=${env:GONE}\nconfig.providers.env.param.allowlist.pattern=[\n")
    assert given.unresolved_keys == {"a"}
    assert "a" not in given.values
    assert [each.describe("w").partition(": ")[0] for each in given.problems] == ["w:5", "w:4"]
    assert "environment variable 'GONE' is not set" in given.problems[1].text


def test_nothing_is_filled_without_providers():
    given = parse("a=${env:HOME}\n", HOME="/h")
    assert given.values == {"a": "${env:HOME}"}


def test_the_last_of_equal_keys_counts_and_the_first_is_told_of():
    given = parse("a=1\nb=2\na=3\n")
    assert given.values == {"a": "3", "b": "2"}
    assert [(each.line, each.key) for each in given.warnings] == [(1, "a")]
    assert "repeated on line 3" in given.warnings[0].text


def test_more_than_ascii_is_told_of():
    given = parse("# ü\na=ü\n")
    assert [each.line for each in given.warnings] == [2]


def test_a_broken_escape_is_refused():
    with pytest.raises(SettingsError, match=r"w.properties:2: \\u needs four"):
        parse("a=1\nb=\\u12\n")


def test_files_are_read_as_kafka_does(tmp_path):
    file = tmp_path / "w.properties"
    file.write_bytes(b"a=\xfc\n")
    assert properties_file.read_properties_text(file) == "a=ü\n"
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        properties_file.read_properties_text(tmp_path / "gone")
    with pytest.raises(SettingsError, match="cannot be read"):
        properties_file.read_properties_text(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingsError, match="cannot be read: not a regular file"):
        properties_file.read_properties_text(tmp_path / "pipe")


CONTENT = """config.providers=env
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
session.timeout.ms=soon
sasl.jaas.config=hunter2
group.id=${env:GROUP}
listeners=${env:LISTENERS}
topic=${env:GONE}
"""


@pytest.fixture
def made() -> ErrorCollector:
    given = properties_file.parse_properties_file(
        CONTENT,
        file="w",
        folder=pathlib.Path("/"),
        environment={"GROUP": "g", "LISTENERS": "http://:1,ftp://x"},
    )
    return ErrorCollector(given)


def told(made: ErrorCollector) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        made.raise_errors_or_get_warnings()
    return str(raised.value).splitlines()


def test_every_problem_is_told_with_line_and_value(made):
    made.add_problem(
        "session.timeout.ms",
        "Invalid value soon for configuration session.timeout.ms: Not a number of type INT",
    )
    made.add_problem(
        "offsets", 'Missing required configuration "offsets" which has no default value.'
    )
    assert told(made) == [
        "w: offsets: is missing: add offsets=… to the file",
        "w:3: session.timeout.ms: Not a number of type INT; given: 'soon'",
        "w:7: topic: cannot be resolved: environment variable 'GONE' is not set",
        "3 problems in w",
    ]


def test_the_first_problem_of_a_key_counts(made):
    made.add_problem("session.timeout.ms", "first")
    made.add_problem("session.timeout.ms", "second")
    made.add_problem("topic", "is missing")
    text = "\n".join(told(made))
    assert "first" in text
    assert "second" not in text
    assert "is missing" not in text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("sasl.jaas.config", "'hunter2' is no JAAS"),
        ("group.id", "'g' is taken"),
        ("listeners", "'ftp://x' has the protocol 'ftp'"),
        ("session.timeout.ms", "differs from HUNTER2"),
    ],
)
def test_secrets_are_not_shown(made, key, text):
    made.add_problem(key, text, allowed=text)
    made.add_warning(key, text)
    line = next(each for each in told(made) if f" {key}: " in each)
    assert text not in line
    assert "has an invalid value, which is not shown because it is a secret" in line
    assert "hunter2" not in line


def test_what_a_provider_filled_in_is_shown_as_it_stands(made):
    made.add_problem("listeners", "needs one at least", allowed="http://:8083")
    assert "w:6: listeners: needs one at least; given: '${env:LISTENERS}'; allowed: " in "\n".join(
        told(made)
    )


def test_warnings_come_in_the_order_of_the_file():
    given = properties_file.parse_properties_file(
        "a=1\nb=2\n", file="w", folder=pathlib.Path("/"), environment={}
    )
    made = ErrorCollector(given)
    made.add_warning("b", "has no effect", nearest="bb")
    made.add_warning("a", "has no effect")
    made.add_warning("a", "has no effect")
    assert made.raise_errors_or_get_warnings() == (
        "w:1: a: has no effect",
        "w:2: b: has no effect; did you mean 'bb'?",
    )
