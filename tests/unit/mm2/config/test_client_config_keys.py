"""The keys of connections; against Java's own definitions: tests/interop/test_mirror_configs.py."""

from __future__ import annotations

import pytest

from connect_runtime.api.config_types import Type
from connect_runtime.api.errors import ConfigError
from connect_runtime.kafka import librdkafka_connection_settings
from connect_runtime.protocol import security_settings
from mm2.config import client_config_keys
from mm2.copier import client_properties


def test_a_property_is_either_taken_or_refused():
    assert not set(client_config_keys.SUPPORTED_PROPERTIES) & set(
        client_config_keys.REFUSED_PROPERTIES
    )
    for names in (client_config_keys.SUPPORTED_PROPERTIES, client_config_keys.REFUSED_PROPERTIES):
        assert not [n for n in names if n.startswith(client_config_keys.SECURITY_PREFIXES)]


def test_a_property_is_taken_where_something_acts_on_it():
    shared = {
        *librdkafka_connection_settings.NUMBER_SETTINGS,
        *librdkafka_connection_settings.TEXT_SETTINGS,
    }
    acted_on = shared | client_properties.COPY_CLIENT_PROPERTIES | {"bootstrap.servers"}
    assert set(client_config_keys.SUPPORTED_PROPERTIES) == acted_on


def test_every_refusal_says_why():
    for name, reason in client_config_keys.REFUSED_PROPERTIES.items():
        assert len(reason) > 20, name


def test_plain_keys_of_a_cluster_are_servers_and_security():
    assert "bootstrap.servers" in client_config_keys.CLIENT_KEYS
    assert "config.providers" not in client_config_keys.CLIENT_KEYS
    assert all(
        name.startswith(("ssl.", "sasl.")) or name in ("bootstrap.servers", "security.protocol")
        for name in client_config_keys.CLIENT_KEYS
    )


def test_secrets_are_passwords():
    secret = ("password", "passphrase", "secret", "keystore.key", "jaas.config")
    for name, key in client_config_keys.SECURITY_KEYS.keys.items():
        if name.endswith(secret):
            assert key.type is Type.PASSWORD, name


def test_every_key_is_explained():
    assert all(
        each.documentation.endswith(".") for each in client_config_keys.SECURITY_KEYS.keys.values()
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("security.protocol", "tls"),
        ("sasl.login.refresh.window.factor", "0.4"),
        ("sasl.login.refresh.window.jitter", "0.3"),
        ("sasl.login.refresh.buffer.seconds", "3601"),
        ("sasl.oauthbearer.assertion.algorithm", "HS256"),
        ("sasl.oauthbearer.assertion.claim.exp.seconds", "86401"),
        ("ssl.cipher.suites", "a,a"),
    ],
)
def test_a_value_out_of_bounds_is_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        client_config_keys.SECURITY_KEYS.parse({name: value})


def test_what_the_connection_supports_of_java_is_among_them():
    """Beside keys of librdkafka's own."""
    ours = {
        each for each in security_settings.SUPPORTED_KEYS if each in client_config_keys.CLIENT_KEYS
    }
    assert {"security.protocol", "sasl.mechanism", "sasl.jaas.config"} <= ours
