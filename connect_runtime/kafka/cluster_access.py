"""How to reach a cluster: read from Kafka client properties, passed on as librdkafka settings.

Certificates are passed inline, never through files. Properties without a librdkafka counterpart are
not passed.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base.errors import FatalError
from connect_runtime.network import connection_settings
from connect_runtime.network.connection_settings import ConnectionSettings
from connect_runtime.protocol import cluster_metadata, security_settings
from connect_runtime.protocol.security_settings import OAuthSettings, SecuritySettings
from connect_runtime.protocol.tls_settings import StoreFiles

_INT_MAX = 2_147_483_647


@dataclass(frozen=True, slots=True)
class LibrdkafkaNumber:
    """A whole number by librdkafka's name, brought into what it accepts."""

    name: str
    least: int
    most: int

    def convert(self, key: str, text: str) -> int:
        """Raises `FatalError` for what is none."""
        try:
            return min(max(int(text), self.least), self.most)
        except ValueError:
            raise FatalError(
                f"reading client settings: {key} is '{text}'; it must be a whole number"
            ) from None


NUMBER_SETTINGS: Mapping[str, LibrdkafkaNumber] = {
    "connections.max.idle.ms": LibrdkafkaNumber("connections.max.idle.ms", 0, _INT_MAX),
    "metadata.max.age.ms": LibrdkafkaNumber("topic.metadata.refresh.interval.ms", 10, 3_600_000),
    "receive.buffer.bytes": LibrdkafkaNumber("socket.receive.buffer.bytes", 0, 100_000_000),
    "reconnect.backoff.max.ms": LibrdkafkaNumber("reconnect.backoff.max.ms", 0, 3_600_000),
    "reconnect.backoff.ms": LibrdkafkaNumber("reconnect.backoff.ms", 0, 3_600_000),
    "request.timeout.ms": LibrdkafkaNumber("socket.timeout.ms", 1_000, 300_000),
    "retry.backoff.max.ms": LibrdkafkaNumber("retry.backoff.max.ms", 1, 300_000),
    "retry.backoff.ms": LibrdkafkaNumber("retry.backoff.ms", 1, 300_000),
    "send.buffer.bytes": LibrdkafkaNumber("socket.send.buffer.bytes", 0, 100_000_000),
    "socket.connection.setup.timeout.ms": LibrdkafkaNumber(
        "socket.connection.setup.timeout.ms", 1_000, _INT_MAX
    ),
}
"""By Java's name."""

TEXT_SETTINGS = ("client.dns.lookup", "metadata.recovery.strategy")
"""What the library calls as Java does, with the same values in lower case."""


def translate_client_settings(properties: Mapping[str, str]) -> dict[str, object]:
    """What is no matter of security. Raises `FatalError`."""
    settings: dict[str, object] = {
        rule.name: rule.convert(name, properties[name])
        for name, rule in NUMBER_SETTINGS.items()
        if name in properties
    }
    settings |= {name: properties[name].lower() for name in TEXT_SETTINGS if name in properties}
    return settings


def translate_security(given: SecuritySettings) -> dict[str, object]:
    """Contains secrets."""
    settings: dict[str, object] = {"security.protocol": given.protocol}
    if given.oauth is not None:
        settings |= _translate_oauth(given.oauth)
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


def _translate_oauth(oauth: OAuthSettings) -> dict[str, object]:
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


_BOOTSTRAP_KEY = "bootstrap.servers"
_REQUEST_TIMEOUT_KEY = "request.timeout.ms"
_SHORT_REQUEST_TIMEOUT_MS = 10_000
_KEPT_KEYS = frozenset({*NUMBER_SETTINGS, *TEXT_SETTINGS})


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaClusterAccess:
    """How to reach one cluster. `bootstrap`: host:port each.

    `name` is for messages and log lines: what its users call the cluster, "" where there is but
    one. `properties` are client settings as Java spells them; `security` goes before what they say
    of it.
    """

    name: str = ""
    bootstrap: tuple[str, ...]
    security: SecuritySettings = field(default_factory=SecuritySettings)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def where(self) -> str:
        """For messages: who, and at which addresses."""
        addresses = ",".join(self.bootstrap)
        return f"{self.name} ({addresses})" if self.name else addresses

    @property
    def settings(self) -> dict[str, object]:
        """In librdkafka's words, secrets included. Raises `FatalError` for what is no number."""
        security = translate_security(self.security)
        return translate_client_settings(self.properties) | security

    def connection(self, client_id: str) -> ConnectionSettings:
        """For connections of our own; `client_id` as brokers see it."""
        return connection_settings.create_connection_settings(
            self.properties,
            bootstrap=self.bootstrap,
            security=self.security,
            client_id=client_id,
        )

    @property
    def secret(self) -> str | None:
        """What the library may repeat of what an issuer of tokens said, and nobody may see."""
        return None if self.security.oauth is None else self.security.oauth.client_secret


def parse_cluster_access(
    properties: Mapping[str, str], *, files: StoreFiles, name: str = ""
) -> KafkaClusterAccess:
    """How to reach the cluster that a worker's (or client's) properties tell of.

    `files` reads certificates. Raises `FatalError` that names every setting that cannot be
    honoured.
    """
    parsed = security_settings.parse_security(properties, files=files)
    if parsed.security is None:
        told = "; ".join(str(each) for each in parsed.errors)
        raise FatalError(f"reading client settings: {told}")
    translate_client_settings(properties)
    return KafkaClusterAccess(
        name=name,
        bootstrap=_parse_bootstrap(properties),
        security=parsed.security,
        properties={key: value for key, value in properties.items() if key in _KEPT_KEYS},
    )


def shorten_request_timeout(access: KafkaClusterAccess) -> KafkaClusterAccess:
    """Gives up silent brokers after 10 s where nothing else is set: a log is read and written
    within 30 s, from new leaders too."""
    properties = {_REQUEST_TIMEOUT_KEY: str(_SHORT_REQUEST_TIMEOUT_MS), **access.properties}
    return dataclasses.replace(access, properties=properties)


def _parse_bootstrap(properties: Mapping[str, str]) -> tuple[str, ...]:
    """As host:port, checked; a protocol in front says nothing, as in Java."""
    given = (each.strip() for each in properties.get(_BOOTSTRAP_KEY, "").split(","))
    found = tuple(each.rpartition("://")[2] for each in given if each)
    if not found:
        raise FatalError(
            f"reading client settings: {_BOOTSTRAP_KEY} is missing; name one broker at least, as"
            " host:port"
        )
    for each in found:
        try:
            cluster_metadata.parse_address(each)
        except ValueError as error:
            raise FatalError(f"reading client settings: {_BOOTSTRAP_KEY}: {error}") from None
    return found
