"""The keys of connections; against Java's own definitions: tests/interop/test_mirror_configs.py."""

from __future__ import annotations

import pytest

from connect_runtime.api import config_types, errors
from connect_runtime.wire.codec import security_settings
from mm2.core.configs import client_keys


def test_plain_keys_of_a_cluster_are_servers_and_security():
    assert "bootstrap.servers" in client_keys.CLIENT
    assert "config.providers" not in client_keys.CLIENT
    assert all(
        name.startswith(("ssl.", "sasl.")) or name in ("bootstrap.servers", "security.protocol")
        for name in client_keys.CLIENT
    )


def test_secrets_are_passwords():
    secret = ("password", "passphrase", "secret", "keystore.key", "jaas.config")
    for name, key in client_keys.SECURITY.keys.items():
        if name.endswith(secret):
            assert key.type is config_types.Type.PASSWORD, name


def test_every_key_is_explained():
    assert all(each.documentation.endswith(".") for each in client_keys.SECURITY.keys.values())


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
    with pytest.raises(errors.ConfigError, match=name):
        client_keys.SECURITY.parse({name: value})


def test_what_the_connection_supports_of_java_is_among_them():
    """Beside keys of librdkafka's own."""
    ours = {each for each in security_settings.SUPPORTED if each in client_keys.CLIENT}
    assert {"security.protocol", "sasl.mechanism", "sasl.jaas.config"} <= ours
