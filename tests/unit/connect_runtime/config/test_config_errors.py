from __future__ import annotations

import pytest

from connect_runtime.config import config_errors
from connect_runtime.config.config_errors import ConfigProblem, SettingsError


def test_a_problem_is_one_line_that_editors_understand():
    problem = ConfigProblem(
        line=12,
        key="flows[0].tasks.max",
        text="is not allowed",
        given="x",
        allowed="a number",
        nearest="tasks.min",
    )
    assert problem.describe("c.yaml") == (
        "c.yaml:12: flows[0].tasks.max: is not allowed; given: 'x'; allowed: a number; "
        "did you mean 'tasks.min'?"
    )


def test_the_file_as_a_whole_has_neither_line_nor_key():
    problem = ConfigProblem(line=0, key="", text="cannot be read")
    assert problem.describe("c.yaml") == "c.yaml: cannot be read"


def test_backslashes_are_shown_once_and_control_characters_escaped():
    shown = ConfigProblem(line=1, key="a", text="x", given=r"\p{L}").describe("f")
    assert r"given: '\p{L}'" in shown
    shown = ConfigProblem(line=1, key="a", text="x", given="a\x1b[2J").describe("f")
    assert "\x1b" not in shown
    shown = ConfigProblem(line=1, key="a", text="x", given=config_errors.HIDDEN_VALUE).describe("f")
    assert "given: [hidden]" in shown


def test_the_error_tells_all_problems_in_the_order_of_the_file():
    error = SettingsError(
        "c.yaml",
        [
            ConfigProblem(line=9, key="b", text="is wrong"),
            ConfigProblem(line=2, key="a", text="is wrong"),
        ],
    )
    assert str(error).splitlines() == [
        "c.yaml:2: a: is wrong",
        "c.yaml:9: b: is wrong",
        "2 problems in c.yaml",
    ]
    with (
        pytest.raises(SettingsError) as raised,
        config_errors.add_consequence_to_settings_error("nothing was started"),
    ):
        raise error
    assert str(raised.value).endswith("\n2 problems in c.yaml: nothing was started")
    assert "1 problem in" in str(SettingsError("c.yaml", error.problems[:1]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("topics.exlude", "topics.exclude"),
        ("Topics", "topics"),
        ("bananas", None),
        ("", None),
    ],
)
def test_the_nearest_known_name(name, expected):
    assert config_errors.find_nearest_name(name, ["topics", "topics.exclude", "groups"]) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sasl.jaas.config", True),
        ("ssl.key.password", True),
        ("ssl.keystore.key", True),
        ("ssl.keystore.location", False),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("bootstrap.servers", False),
        ("sasl.mechanism", False),
        ("producer.sasl.jaas.config", True),
        ("listeners.https.ssl.keystore.key", True),
        ("spark.ssl.keyPassword", True),
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.s3a.access.key", True),
        ("spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net", True),
        ("spark.executorEnv.API_TOKEN", True),
        ("spark.authenticate.secret.file", False),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("spark.kafka.clusters.a.sasl.token.mechanism", False),
        ("inter.worker.key.ttl.ms", False),
        ("key.converter", False),
    ],
)
def test_secrets_are_known_by_name(name, expected):
    assert config_errors.is_sensitive_key(name) is expected


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            "-Djavax.net.ssl.trustStorePassword=x,y -Dz=1",
            "-Djavax.net.ssl.trustStorePassword={} -Dz=1",
        ),
        ("https://h/t?client_secret=x&scope=a", "https://h/t?client_secret={}&scope=a"),
        ("clientId=a clientSecret='x y' b", "clientId=a clientSecret={} b"),
        ('password="x', "password={}"),
        ("ACCESS_KEY = x", "ACCESS_KEY = {}"),
        ("https://user:x@host/p", "https://user:{}@host/p"),
        ("password: x y", "password: {} y"),
        ('{{"password":"x y"}}', '{{"password":{}}}'),
        ("secret-kafka:9092,token:9092", "secret-kafka:9092,token:9092"),
        ("sasl.mechanism=PLAIN; tokens", "sasl.mechanism=PLAIN; tokens"),
    ],
)
def test_secrets_inside_a_value_are_hidden(value, shown):
    value, hidden = value.format(), shown.format(config_errors.HIDDEN_VALUE)
    assert config_errors.redact_secrets_in_value(value) == hidden
    problem = ConfigProblem(line=1, key="a", text="is not allowed", given=value)
    assert f"given: '{hidden}'" in problem.describe("f")


@pytest.mark.parametrize(
    "name",
    [
        *("spark.executorEnv.DB_PWD", "x.passwd", "client.credential", "ssl.keystore.key"),
        *("basic.auth.user.info", "gcs.credentials.json", "azure.sas"),
    ],
)
def test_other_words_for_passwords_are_known(name):
    assert config_errors.is_sensitive_key(name)


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ("https://x/y?sv=1&sig=aB%2B&se=2", "https://x/y?sv=1&sig=[hidden]&se=2"),
        ("user:SECRET@host:9092", "user:[hidden]@host:9092"),
        ("a:9092,user:SECRET@host:9092", "a:9092,user:[hidden]@host:9092"),
        ("DB_PWD=x", "DB_PWD=[hidden]"),
        ("a:9092,b:9093", "a:9092,b:9093"),
        ("kafka/host@REALM", "kafka/host@REALM"),
        ("user:p@ss@host:9092", "user:[hidden]@host:9092"),
        ("https://u:p@ss@h/x", "https://u:[hidden]@h/x"),
        ("ACL of User:alice@CORP and Group:x@CORP", "ACL of User:alice@CORP and Group:x@CORP"),
        ("jdbc:oracle:thin:@host:1521", "jdbc:oracle:thin:@host:1521"),
    ],
)
def test_logins_and_signatures_in_a_value_are_hidden(value, hidden):
    assert config_errors.redact_secrets_in_value(value) == hidden


def test_a_login_is_hidden_in_the_text_of_a_problem_too():
    text = "https://u:SECRET@h:1 is no listener, nor is 'u:SECRET@h'"
    told = ConfigProblem(line=1, key="rest.listeners", text=text).describe("f")
    assert told == (
        "f:1: rest.listeners: https://u:[hidden]@h:1 is no listener, nor is 'u:[hidden]@h'"
    )
