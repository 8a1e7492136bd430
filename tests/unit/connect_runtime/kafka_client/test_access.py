"""What properties say of a cluster, secrets hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.base import errors
from connect_runtime.kafka_client import access
from connect_runtime.wire.codec import security_settings
from connect_runtime.wire.connection import store_files

FILES = store_files.below(Path())
PLAIN = {"bootstrap.servers": "127.0.0.1:1, 127.0.0.1:2"}
OAUTH = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
    "sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="connect" clientSecret="s3 cret";'
    ),
}


def settings(**properties):
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return access.parse(PLAIN | given, files=FILES).settings


def test_a_plain_cluster_needs_little():
    found = access.parse(PLAIN, files=FILES)
    assert found.settings == {"security.protocol": "PLAINTEXT"}
    assert found.secret is None
    assert found.bootstrap == ("127.0.0.1:1", "127.0.0.1:2")
    told = {"bootstrap.servers": "SASL_PLAINTEXT://h:1, [::1]:2"}
    assert access.parse(told, files=FILES).bootstrap == ("h:1", "[::1]:2")


def test_messages_say_which_cluster_and_where():
    assert access.parse(PLAIN, files=FILES).where == "127.0.0.1:1,127.0.0.1:2"
    named = access.parse(PLAIN, files=FILES, name="west")
    assert named.where == "west (127.0.0.1:1,127.0.0.1:2)"


def test_what_no_client_acts_on_is_not_kept():
    assert settings(metric_reporters="a.B", linger_ms="7", group_id="g") == settings()
    found = access.parse(PLAIN | {"linger.ms": "7", "request.timeout.ms": "5000"}, files=FILES)
    assert found.properties == {"request.timeout.ms": "5000"}


def test_sasl_and_tls_are_passed_inline():
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    found = settings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=f'{login} username="u" password="p";',
    )
    assert found["sasl.username"] == "u"
    assert found["sasl.password"] == "p"
    assert found["ssl.endpoint.identification.algorithm"] == "https"


def test_secrets_are_in_no_repr():
    given = access.parse(PLAIN | OAUTH, files=FILES)
    assert given.settings["sasl.oauthbearer.client.secret"] == given.secret == "s3 cret"
    assert "s3" not in repr(given)
    security = security_settings.Security(password="pass-word", key_pem="key-text")
    properties = {"sasl.jaas.config": "pass-word"}
    shown = repr(access.Access(bootstrap=("h:1",), security=security, properties=properties))
    assert "pass-word" not in shown
    assert "key-text" not in shown


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({}, r"bootstrap.servers is missing"),
        ({"bootstrap.servers": " , "}, r"bootstrap.servers is missing"),
        ({"bootstrap.servers": "a:1,nobody"}, r"bootstrap.servers: 'nobody' is not host:port"),
        ({"bootstrap.servers": "a:0"}, r"bootstrap.servers: 'a:0' has no port"),
        (PLAIN | {"request.timeout.ms": "soon"}, "request.timeout.ms is 'soon'"),
        (PLAIN | {"security.protocol": "SSH"}, "security.protocol"),
    ],
)
def test_what_cannot_be_meant_is_refused(properties, told):
    with pytest.raises(errors.FatalError, match=told):
        access.parse(properties, files=FILES)


@pytest.mark.parametrize(
    ("given", "wanted"), [({}, 10_000), ({"request.timeout.ms": "5000"}, 5000)]
)
def test_silent_brokers_are_given_up_soon_unless_it_is_said_when(given, wanted):
    found = access.impatient(access.Access(bootstrap=("h:1",), properties=given))
    assert found.settings["socket.timeout.ms"] == wanted
