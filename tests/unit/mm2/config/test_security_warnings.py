"""What is allowed in a file and not safe is told once, at its line."""

from __future__ import annotations

import pathlib

import pytest

from connect_runtime.config.config_errors import SettingsError
from mm2.config import config_loader

YAML = """clusters:
  a:
    bootstrap.servers: a:1
    security.protocol: SASL_SSL
    sasl.mechanism: PLAIN
    sasl.jaas.config: {jaas}
  b:
    bootstrap.servers: b:1
flows:
  - {{from: a, to: b}}
"""
INLINE = """'x.PlainLoginModule required username="u" password="hush";'"""
BY_NAME = INLINE.replace("hush", "${env:HUSH}")
PROPERTIES = """clusters = a, b
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
a->b.enabled = true
"""


def parse(text, **environment):
    return config_loader.parse_clusters_yaml(
        text, file="f", folder=pathlib.Path("/"), environment=environment
    )


def parse_properties(text):
    return config_loader.parse_mm2_properties(
        text, file="f", folder=pathlib.Path("/"), environment={}
    )


def test_a_secret_in_clear_is_told_with_the_topics_that_will_hold_it():
    (found,) = parse(YAML.format(jaas=INLINE)).warnings
    told = found.describe("f")
    assert "f:6: clusters.a.sasl.jaas.config: is a plaintext secret" in told
    assert "mm2-configs.a.internal" in told
    assert "${file:/path:key}" in told
    assert "hush" not in told


def test_a_secret_by_name_is_not():
    assert parse(YAML.format(jaas=BY_NAME), HUSH="x").warnings == ()


def test_several_secrets_are_told_once():
    extra = (
        "a.security.protocol = SASL_PLAINTEXT\na.sasl.mechanism = PLAIN\n"
        'a.sasl.jaas.config = x.PlainLoginModule required username="u" password="hush";\n'
        "a->b.source.cluster.secret = hush\nlisteners.https.ssl.key.password = hush\n"
    )
    told = [each.describe("f") for each in parse_properties(PROPERTIES + extra).warnings]
    (found,) = [each for each in told if "plaintext secret" in each]
    assert (
        "f:7: a.sasl.jaas.config: is a plaintext secret (as are a->b.source.cluster.secret)"
        in found
    )


@pytest.mark.parametrize("protocol", ["compatible", "Eager"])
def test_a_protocol_that_signs_nothing_is_refused_in_yaml(protocol):
    text = YAML.format(jaas=BY_NAME) + f"worker:\n  connect.protocol: {protocol}\n"
    with pytest.raises(SettingsError) as caught:
        parse(text, HUSH="x")
    (found,) = caught.value.problems
    assert (found.line, found.key) == (12, "worker.connect.protocol")
    assert "does not sign requests between nodes" in found.text
    parse(text.replace(protocol, "Sessioned"), HUSH="x")


def test_and_is_warned_of_in_properties():
    (found,) = parse_properties(PROPERTIES + "b.connect.protocol = compatible\n").warnings
    told = found.describe("f")
    assert "f:5: b.connect.protocol: COMPATIBLE does not sign requests between nodes" in told


SPARK = """spark:
  conf:
    spark.ssl.keyPassword: hush
    spark.hadoop.fs.s3a.secret.key: hush
    spark.executorEnv.API_TOKEN: hush
    spark.executorEnv.API_KEY: ${env:HUSH}
"""


def test_secrets_of_spark_are_told_without_topics_because_none_has_them():
    (found,) = parse(YAML.format(jaas=BY_NAME) + SPARK, HUSH="x").warnings
    assert found.describe("f") == (
        "f:13: spark.conf.spark.ssl.keyPassword: is a plaintext secret (as are "
        "spark.conf.spark.hadoop.fs.s3a.secret.key, spark.conf.spark.executorEnv.API_TOKEN): "
        "everyone who can read this file can see it; use ${file:/path:key} or ${env:NAME}, so "
        "that only the reference is stored"
    )


@pytest.mark.parametrize("value", ["-Dssl.trustStorePassword=hush", "-Da=${env:HUSH}"])
@pytest.mark.parametrize("name", ["driver.extraJavaOptions", "executor.defaultJavaOptions"])
def test_a_secret_in_a_command_line_is_told_also_as_a_reference(name, value):
    text = YAML.format(jaas=BY_NAME) + f"spark: {{conf: {{spark.{name}: '{value}'}}}}\n"
    (found,) = parse(text, HUSH="hush").warnings
    assert "hush" not in found.describe("f")
    assert "becomes part of a command line, which every user of that machine can read" in found.text
    assert parse(text.replace(value, "-Xmx1g"), HUSH="hush").warnings == ()


def test_a_secret_inside_a_value_is_told():
    jaas = "'x.OAuthBearerLoginModule required clientId=a clientSecret=\"${env:HUSH}\";'"
    text = YAML.format(jaas=jaas).replace(
        "    sasl.mechanism: PLAIN\n",
        "    sasl.mechanism: OAUTHBEARER\n"
        "    sasl.oauthbearer.token.endpoint.url: https://h/t?client_secret=hush\n",
    )
    (found,) = parse(text, HUSH="x").warnings
    told = found.describe("f")
    assert "f:6: clusters.a.sasl.oauthbearer.token.endpoint.url: is a plaintext secret" in told
    assert "hush" not in told
