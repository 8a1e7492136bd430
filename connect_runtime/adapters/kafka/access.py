"""From settings to configured librdkafka clients, whose troubles are remembered.

librdkafka's log lines go to children of the Python logger `librdkafka`, handed out whenever a
client is polled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.kafka_client import translate_errors

LOGGER = logging.getLogger("librdkafka")
_QUIET_S = 30.0
_TEXTS_MAX = 200
_DURATION = re.compile(r"\(after \d+ms in state [^)]*\)|\d+ms\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach one cluster. `settings` are librdkafka's own, shared by all clients.

    `secret` is what the library may repeat of what an issuer of tokens said, and nobody may see.
    """

    bootstrap: str
    settings: Mapping[str, object] = field(default_factory=dict, repr=False)
    secret: str | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        """For messages: at which addresses."""
        return self.bootstrap


def impatient(access: Access) -> Access:
    """Gives up silent brokers after 10 s where nothing else is set: a log is read and written
    within 30 s, from new leaders too."""
    settings = {"socket.timeout.ms": 10_000, **access.settings}
    return dataclasses.replace(access, settings=settings)


def producer(
    access: Access,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: translate_errors.ConnectionReports,
) -> confluent_kafka.Producer:
    """A producer; `settings` win. Raises `FatalError` on refused settings."""
    config = _config(access, client_id=client_id, settings=settings, reports=reports)
    with _explained(access):
        return confluent_kafka.Producer(config, logger=_logger(access))


def consumer(
    access: Access,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: translate_errors.ConnectionReports,
) -> confluent_kafka.Consumer:
    """A consumer; `settings` win. Raises `FatalError` on refused settings."""
    config = _config(access, client_id=client_id, settings=settings, reports=reports)
    with _explained(access):
        return confluent_kafka.Consumer(config, logger=_logger(access))


def admin_client(
    access: Access,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: translate_errors.ConnectionReports,
) -> library.AdminClient:
    """An admin client; `settings` win. Raises `FatalError` on refused settings."""
    config = _config(access, client_id=client_id, settings=settings, reports=reports)
    with _explained(access):
        return library.AdminClient(config, logger=_logger(access))


def _config(
    access: Access,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: translate_errors.ConnectionReports,
) -> dict[str, Any]:
    return {
        "log.connection.close": False,
        "socket.timeout.ms": 30_000,  # Java's default of request.timeout.ms
        "reconnect.backoff.max.ms": 1_000,  # Java's default; librdkafka's 10 s delays recovery
        **access.settings,
        **settings,
        "bootstrap.servers": access.bootstrap,
        "client.id": client_id,
        "enable.metrics.push": False,
        "error_cb": _discreet(access, reports.on_error),
    }


def _discreet(
    access: Access, on_error: Callable[[confluent_kafka.KafkaError], None]
) -> Callable[[confluent_kafka.KafkaError], None]:
    if access.secret is None:
        return on_error
    hide = _hiding(access.secret)
    return lambda error: on_error(confluent_kafka.KafkaError(error.code(), hide(error.str())))


def _logger(access: Access) -> logging.Logger:
    """What the library logs for this cluster's clients, without the secret of an issuer's."""
    found = LOGGER.getChild(hashlib.sha256(access.bootstrap.encode()).hexdigest()[:8])
    if not found.filters:
        found.addFilter(_Repeats().is_news)
    if access.secret is not None:
        hide = _hiding(access.secret)

        def discreet(record: logging.LogRecord) -> bool:
            record.msg, record.args = hide(record.getMessage()), ()
            return True

        found.filters = [discreet, *found.filters[-1:]]
    return found


@dataclass(slots=True)
class _Repeats:
    """While brokers are away a client tells so many times a second; once in a while is enough."""

    _told_s: dict[str, float] = field(default_factory=dict)

    def is_news(self, record: logging.LogRecord) -> bool:
        text = _DURATION.sub("", record.getMessage())
        if record.created - self._told_s.get(text, -_QUIET_S) < _QUIET_S:
            return False
        if len(self._told_s) >= _TEXTS_MAX:
            self._told_s.clear()
        self._told_s[text] = record.created
        return True


def _hiding(secret: str) -> Callable[[str], str]:
    """As it is, and as it is sent where `sasl.oauthbearer.header.urlencode` is on."""
    forms = sorted({secret, urllib.parse.quote_plus(secret)} - {""}, key=len, reverse=True)

    def hide(text: str) -> str:
        for each in forms:
            text = text.replace(each, "…")
        return text

    return hide


@contextlib.contextmanager
def _explained(access: Access) -> Iterator[None]:
    """The library checks settings, certificates included, when a client is made."""
    try:
        yield
    except confluent_kafka.KafkaException as error:
        raise translate_errors.translate(
            error.args[0], "configuring a client", where=access.where
        ) from None  # its context holds the configuration, secrets included
