"""From client settings as Java spells them to librdkafka's: what every client of a cluster shares.

Certificates travel inline, never through files. What librdkafka has no counterpart for is not
passed.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.base import errors
from connect_runtime.wire.codec import security_settings

_INT_MAX = 2_147_483_647


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number by librdkafka's name, brought into what it accepts."""

    name: str
    least: int
    most: int

    def convert(self, key: str, text: str) -> int:
        """Raises `FatalError` for what is none."""
        try:
            return min(max(int(text), self.least), self.most)
        except ValueError:
            raise errors.FatalError(
                f"reading client settings: {key} is '{text}'; it must be a whole number"
            ) from None


SHARED: Mapping[str, Number] = {
    "connections.max.idle.ms": Number("connections.max.idle.ms", 0, _INT_MAX),
    "metadata.max.age.ms": Number("topic.metadata.refresh.interval.ms", 10, 3_600_000),
    "receive.buffer.bytes": Number("socket.receive.buffer.bytes", 0, 100_000_000),
    "reconnect.backoff.max.ms": Number("reconnect.backoff.max.ms", 0, 3_600_000),
    "reconnect.backoff.ms": Number("reconnect.backoff.ms", 0, 3_600_000),
    "request.timeout.ms": Number("socket.timeout.ms", 1_000, 300_000),
    "retry.backoff.max.ms": Number("retry.backoff.max.ms", 1, 300_000),
    "retry.backoff.ms": Number("retry.backoff.ms", 1, 300_000),
    "send.buffer.bytes": Number("socket.send.buffer.bytes", 0, 100_000_000),
    "socket.connection.setup.timeout.ms": Number(
        "socket.connection.setup.timeout.ms", 1_000, _INT_MAX
    ),
}
"""By Java's name."""

NAMED = ("client.dns.lookup", "metadata.recovery.strategy")
"""What the library calls as Java does, with the same values in lower case."""


def shared(properties: Mapping[str, str]) -> dict[str, object]:
    """What is no matter of security. Raises `FatalError`."""
    settings: dict[str, object] = {
        rule.name: rule.convert(name, properties[name])
        for name, rule in SHARED.items()
        if name in properties
    }
    settings |= {name: properties[name].lower() for name in NAMED if name in properties}
    return settings


def security(given: security_settings.Security) -> dict[str, object]:
    """Contains secrets."""
    settings: dict[str, object] = {"security.protocol": given.protocol}
    if given.oauth is not None:
        settings |= _oauth(given.oauth)
    elif given.uses_sasl:
        settings |= {
            "sasl.mechanism": given.mechanism,
            "sasl.username": given.username,
            "sasl.password": given.password,
        }
    if given.uses_tls:
        settings |= {
            "ssl.ca.pem": given.ca_pem,
            "ssl.certificate.pem": given.certificate_pem,
            "ssl.key.pem": given.key_pem,
            "ssl.key.password": given.key_password,
            "ssl.endpoint.identification.algorithm": "https" if given.check_hostname else "none",
        }
    return {name: value for name, value in settings.items() if value is not None}


def _oauth(oauth: security_settings.OAuth) -> dict[str, object]:
    """librdkafka asks the issuer itself, in a thread of its own, and renews what it got."""
    extensions = ",".join(f"{name}={value}" for name, value in oauth.extensions.items())
    quoted = urllib.parse.quote_plus if oauth.urlencode else str
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": oauth.endpoint,
        "sasl.oauthbearer.client.id": quoted(oauth.client_id),
        "sasl.oauthbearer.client.secret": quoted(oauth.client_secret),
        "sasl.oauthbearer.scope": oauth.scope or None,
        "sasl.oauthbearer.extensions": extensions or None,
        "https.ca.pem": oauth.ca_pem,
    }
