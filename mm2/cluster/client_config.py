"""From Java-spelled client settings to configured librdkafka clients.

Certificates travel inline, never through files. librdkafka's log lines go to the Python logger
`librdkafka`, handed out whenever a client is polled. Which properties a user may give, and with
what values, was checked when the settings were read; those that librdkafka has no counterpart for
are not passed.
"""

from __future__ import annotations

import contextlib
import logging
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
from confluent_kafka import admin as kafka_admin

from connect_runtime.kafka_client import translate_errors
from connect_runtime.wire.codec import security_settings

LOGGER = logging.getLogger("librdkafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """How to reach one cluster. `properties` are client settings as Java spells them."""

    alias: str
    bootstrap: tuple[str, ...]
    security: security_settings.Security
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def where(self) -> str:
        """For messages: who and at which addresses."""
        return f"{self.alias} ({','.join(self.bootstrap)})"


@dataclass(frozen=True, slots=True)
class _Number:
    """A whole number, brought into what librdkafka accepts."""

    name: str
    least: int
    most: int

    def convert(self, text: str) -> int:
        return min(max(int(text), self.least), self.most)


_INT_MAX = 2_147_483_647

SHARED: Mapping[str, _Number] = {
    "connections.max.idle.ms": _Number("connections.max.idle.ms", 0, _INT_MAX),
    "metadata.max.age.ms": _Number("topic.metadata.refresh.interval.ms", 10, 3_600_000),
    "receive.buffer.bytes": _Number("socket.receive.buffer.bytes", 0, 100_000_000),
    "reconnect.backoff.max.ms": _Number("reconnect.backoff.max.ms", 0, 3_600_000),
    "reconnect.backoff.ms": _Number("reconnect.backoff.ms", 0, 3_600_000),
    "request.timeout.ms": _Number("socket.timeout.ms", 1_000, 300_000),
    "retry.backoff.max.ms": _Number("retry.backoff.max.ms", 1, 300_000),
    "retry.backoff.ms": _Number("retry.backoff.ms", 1, 300_000),
    "send.buffer.bytes": _Number("socket.send.buffer.bytes", 0, 100_000_000),
    "socket.connection.setup.timeout.ms": _Number(
        "socket.connection.setup.timeout.ms", 1_000, _INT_MAX
    ),
}
"""By Java's name."""

NAMED = ("client.dns.lookup", "metadata.recovery.strategy")
"""What the library calls as Java does, with the same values in lower case."""


def client_settings(access: ClusterAccess, *, client_id: str) -> dict[str, object]:
    """librdkafka properties that every client of this cluster shares. Contains secrets."""
    settings: dict[str, object] = {
        "bootstrap.servers": ",".join(access.bootstrap),
        "client.id": client_id,
        "log.connection.close": False,
        "reconnect.backoff.max.ms": 1_000,  # Java's default; librdkafka's 10 s delays recovery
    }
    for name, rule in SHARED.items():
        if name in access.properties:
            settings[rule.name] = rule.convert(access.properties[name])
    for name in NAMED:
        if name in access.properties:
            settings[name] = access.properties[name].lower()
    settings.update(_security(access.security))
    return settings


def producer(
    access: ClusterAccess,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: translate_errors.ConnectionReports,
) -> confluent_kafka.Producer:
    """A producer; `settings` (librdkafka's names) win. Raises `FatalError` on refused settings."""
    config = _client(access, client_id=client_id, settings=settings, reports=reports)
    with _explained(access):
        return confluent_kafka.Producer(config, logger=_logger(access))


def consumer(
    access: ClusterAccess,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: translate_errors.ConnectionReports,
) -> confluent_kafka.Consumer:
    """A consumer; `settings` (librdkafka's names) win. Raises `FatalError` on refused settings."""
    config = _client(access, client_id=client_id, settings=settings, reports=reports)
    with _explained(access):
        return confluent_kafka.Consumer(config, logger=_logger(access))


def admin_client(
    access: ClusterAccess, *, client_id: str, reports: translate_errors.ConnectionReports
) -> kafka_admin.AdminClient:
    """An admin client. Raises `FatalError` on refused settings."""
    config = _client(access, client_id=client_id, settings={}, reports=reports)
    with _explained(access):
        return kafka_admin.AdminClient(config, logger=_logger(access))


def _client(
    access: ClusterAccess,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: translate_errors.ConnectionReports,
) -> dict[str, Any]:
    config: dict[str, Any] = client_settings(access, client_id=client_id)
    config.update(settings)
    config["enable.metrics.push"] = False
    config["error_cb"] = reports.on_error
    oauth = access.security.oauth
    if oauth is not None:
        # The library repeats what an issuer answers, and an issuer may repeat what it was sent.
        hide = _hiding(oauth.client_secret)
        config["error_cb"] = lambda error: reports.on_error(
            confluent_kafka.KafkaError(error.code(), hide(error.str()))
        )
    return config


def _logger(access: ClusterAccess) -> logging.Logger:
    """What the library logs for this cluster's clients, without the secret of an issuer's."""
    oauth = access.security.oauth
    if oauth is None:
        return LOGGER
    found = LOGGER.getChild(access.alias)
    hide = _hiding(oauth.client_secret)

    def discreet(record: logging.LogRecord) -> bool:
        record.msg, record.args = hide(record.getMessage()), ()
        return True

    found.filters = [discreet]
    return found


def _hiding(secret: str) -> Callable[[str], str]:
    """As it is, and as it is sent where `sasl.oauthbearer.header.urlencode` is on."""
    forms = sorted({secret, urllib.parse.quote_plus(secret)} - {""}, key=len, reverse=True)

    def hide(text: str) -> str:
        for each in forms:
            text = text.replace(each, "…")
        return text

    return hide


@contextlib.contextmanager
def _explained(access: ClusterAccess) -> Iterator[None]:
    """The library checks settings, certificates included, when a client is made."""
    try:
        yield
    except confluent_kafka.KafkaException as error:
        raise translate_errors.translate(
            error.args[0], "configuring a client", where=access.where
        ) from None  # its context holds the configuration, secrets included


def _security(security: security_settings.Security) -> dict[str, object]:
    settings: dict[str, object] = {"security.protocol": security.protocol}
    if security.oauth is not None:
        settings |= _oauth(security.oauth)
    elif security.uses_sasl:
        settings |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.username,
            "sasl.password": security.password,
        }
    if security.uses_tls:
        settings |= {
            "ssl.ca.pem": security.ca_pem,
            "ssl.certificate.pem": security.certificate_pem,
            "ssl.key.pem": security.key_pem,
            "ssl.key.password": security.key_password,
            "ssl.endpoint.identification.algorithm": "https" if security.check_hostname else "none",
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
