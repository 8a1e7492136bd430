from __future__ import annotations

import pytest

from connect_runtime.app.settings import sensitive


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
    ],
)
def test_secrets_are_known_by_name(name, expected):
    assert sensitive.is_sensitive(name) is expected
