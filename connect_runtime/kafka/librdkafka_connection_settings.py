"""Connection settings of a cluster, parsed from Kafka properties and translated for librdkafka.

Certificates are passed inline, never as files. Properties without a librdkafka counterpart are not
passed.
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
from connect_runtime.protocol.tls_settings import KeyStoreFileReader

_INT_MAX = 2_147_483_647


@dataclass(frozen=True, slots=True)
class LibrdkafkaIntegerSetting:
    """An integer librdkafka setting with its minimum and maximum."""

    name: str
    minimum: int
    maximum: int

    def convert_value(self, key: str, text: str) -> int:
        """Convert a property value to an integer, limited to the minimum and maximum.

        Raises `FatalError` if the value is not an integer.
        """
        try:
            return min(max(int(text), self.minimum), self.maximum)
        except ValueError:
            raise FatalError(
                f"reading client settings: {key} is '{text}'; it must be an integer"
            ) from None


NUMBER_SETTINGS: Mapping[str, LibrdkafkaIntegerSetting] = {
    "connections.max.idle.ms": LibrdkafkaIntegerSetting("connections.max.idle.ms", 0, _INT_MAX),
    "metadata.max.age.ms": LibrdkafkaIntegerSetting(
        "topic.metadata.refresh.interval.ms", 10, 3_600_000
    ),
    "receive.buffer.bytes": LibrdkafkaIntegerSetting("socket.receive.buffer.bytes", 0, 100_000_000),
    "reconnect.backoff.max.ms": LibrdkafkaIntegerSetting("reconnect.backoff.max.ms", 0, 3_600_000),
    "reconnect.backoff.ms": LibrdkafkaIntegerSetting("reconnect.backoff.ms", 0, 3_600_000),
    "request.timeout.ms": LibrdkafkaIntegerSetting("socket.timeout.ms", 1_000, 300_000),
    "retry.backoff.max.ms": LibrdkafkaIntegerSetting("retry.backoff.max.ms", 1, 300_000),
    "retry.backoff.ms": LibrdkafkaIntegerSetting("retry.backoff.ms", 1, 300_000),
    "send.buffer.bytes": LibrdkafkaIntegerSetting("socket.send.buffer.bytes", 0, 100_000_000),
    "socket.connection.setup.timeout.ms": LibrdkafkaIntegerSetting(
        "socket.connection.setup.timeout.ms", 1_000, _INT_MAX
    ),
}
"""librdkafka settings by Java property name."""

TEXT_SETTINGS = ("client.dns.lookup", "metadata.recovery.strategy")
"""Properties that have the same name in librdkafka. Their values are converted to lower case."""


def translate_client_settings(properties: Mapping[str, str]) -> dict[str, object]:
    """Translate all properties except security settings to librdkafka settings.

    Raises `FatalError` for an invalid number.
    """
    settings: dict[str, object] = {
        rule.name: rule.convert_value(name, properties[name])
        for name, rule in NUMBER_SETTINGS.items()
        if name in properties
    }
    settings |= {name: properties[name].lower() for name in TEXT_SETTINGS if name in properties}
    return settings


def translate_security_settings(given: SecuritySettings) -> dict[str, object]:
    """Translate security settings to librdkafka settings. The result contains secrets."""
    settings: dict[str, object] = {"security.protocol": given.protocol}
    if given.oauth is not None:
        settings |= _translate_oauth_settings(given.oauth)
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


def _translate_oauth_settings(oauth: OAuthSettings) -> dict[str, object]:
    """Translate OAuth settings to librdkafka settings.

    librdkafka requests and refreshes tokens on its own thread.
    """
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
REQUEST_TIMEOUT_KEY = "request.timeout.ms"
_SHORT_REQUEST_TIMEOUT_MS = 10_000
_KEPT_KEYS = frozenset({*NUMBER_SETTINGS, *TEXT_SETTINGS})


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaClusterAccess:
    """Addresses, security settings and client properties that are needed to connect to a
    cluster."""

    name: str = ""
    """The cluster's name for messages and logs; "" if only one cluster is in use."""
    bootstrap: tuple[str, ...]
    """Bootstrap addresses, each as host:port."""
    security: SecuritySettings = field(default_factory=SecuritySettings)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Client properties with Java's names. Security properties among them are ignored: `security`
    contains their parsed values."""

    @property
    def name_and_addresses(self) -> str:
        """Cluster name and addresses, for messages."""
        addresses = ",".join(self.bootstrap)
        return f"{self.name} ({addresses})" if self.name else addresses

    @property
    def librdkafka_settings(self) -> dict[str, object]:
        """librdkafka settings, including secrets. Raises `FatalError` for an invalid number."""
        security = translate_security_settings(self.security)
        return translate_client_settings(self.properties) | security

    def to_connection_settings(self, client_id: str) -> ConnectionSettings:
        """Create the settings for connections of `connect_runtime.network` to the cluster.
        `client_id` is sent to the brokers."""
        return connection_settings.create_connection_settings(
            self.properties,
            bootstrap=self.bootstrap,
            security=self.security,
            client_id=client_id,
        )

    @property
    def oauth_secret(self) -> str | None:
        """OAuth client secret; None without OAuth. The secret must be redacted from librdkafka's
        logs: librdkafka logs responses of the token issuer, which may repeat the secret."""
        return None if self.security.oauth is None else self.security.oauth.client_secret


def parse_cluster_access(
    properties: Mapping[str, str], *, files: KeyStoreFileReader, name: str = ""
) -> KafkaClusterAccess:
    """Parse the connection properties of a worker or client.

    Certificate files are read with `files`. Raises a `FatalError` that names every unsupported
    setting.
    """
    parsed = security_settings.parse_security_settings(properties, files=files)
    if parsed.security is None:
        problems = "; ".join(str(each) for each in parsed.errors)
        raise FatalError(f"reading client settings: {problems}")
    translate_client_settings(properties)
    return KafkaClusterAccess(
        name=name,
        bootstrap=_parse_bootstrap_servers(properties),
        security=parsed.security,
        properties={key: value for key, value in properties.items() if key in _KEPT_KEYS},
    )


def shorten_request_timeout(access: KafkaClusterAccess) -> KafkaClusterAccess:
    """Return the settings with a default request timeout of 10 s. A configured request timeout
    takes precedence.

    The short timeout detects unresponsive brokers in time: internal topics must be readable and
    writable within 30 s, even after a leader change.
    """
    properties = {REQUEST_TIMEOUT_KEY: str(_SHORT_REQUEST_TIMEOUT_MS), **access.properties}
    return dataclasses.replace(access, properties=properties)


def _parse_bootstrap_servers(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Parse and validate the bootstrap addresses (host:port). Ignores protocol prefixes, as Java
    does."""
    given = (each.strip() for each in properties.get(_BOOTSTRAP_KEY, "").split(","))
    found = tuple(each.rpartition("://")[2] for each in given if each)
    if not found:
        raise FatalError(
            f"reading client settings: {_BOOTSTRAP_KEY} is missing; set at least one broker as "
            "host:port"
        )
    for each in found:
        try:
            cluster_metadata.parse_address(each)
        except ValueError as error:
            raise FatalError(f"reading client settings: {_BOOTSTRAP_KEY}: {error}") from None
    return found
