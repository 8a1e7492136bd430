"""Configured librdkafka clients, whose troubles are remembered, and which tell no secrets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import admin_clients, library_log, translate_errors


def producer(
    access: kafka_access.Access,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: translate_errors.ConnectionReports,
) -> confluent_kafka.Producer:
    """A producer; `settings` (librdkafka's names) win. Raises `FatalError` on refused settings."""
    config = _config(access, client_id=client_id, settings=settings, reports=reports)
    with _explained(access):
        return confluent_kafka.Producer(config, logger=library_log.logger(access))


def consumer(
    access: kafka_access.Access,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: translate_errors.ConnectionReports,
) -> confluent_kafka.Consumer:
    """A consumer; `settings` (librdkafka's names) win. Raises `FatalError` on refused settings."""
    config = _config(access, client_id=client_id, settings=settings, reports=reports)
    with _explained(access):
        return confluent_kafka.Consumer(config, logger=library_log.logger(access))


def admin_client(
    access: kafka_access.Access,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: translate_errors.ConnectionReports,
) -> library.AdminClient:
    """An admin client; `settings` (librdkafka's names) win. Raises `FatalError` on refused
    settings."""
    config = _config(access, client_id=client_id, settings=settings, reports=reports)
    with _explained(access):
        return admin_clients.AdminClient(config, logger=library_log.logger(access))


def _config(
    access: kafka_access.Access,
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
        "bootstrap.servers": ",".join(access.bootstrap),
        "client.id": client_id,
        "enable.metrics.push": False,
        "error_cb": _discreet(access, reports.on_error),
    }


def _discreet(
    access: kafka_access.Access, on_error: Callable[[confluent_kafka.KafkaError], None]
) -> Callable[[confluent_kafka.KafkaError], None]:
    """The library repeats what an issuer answers, and an issuer may repeat what it was sent."""
    forms = library_log.forms(access)
    if not forms:
        return on_error
    return lambda error: on_error(
        confluent_kafka.KafkaError(error.code(), library_log.hidden(error.str(), forms))
    )


@contextlib.contextmanager
def _explained(access: kafka_access.Access) -> Iterator[None]:
    """The library checks settings, certificates included, when a client is made; and each has a
    thread-local key of the process, of which there are 1,024."""
    try:
        yield
    except confluent_kafka.KafkaException as error:
        raise translate_errors.translate(
            error.args[0], "configuring a client", where=access.where
        ) from None  # its context holds the configuration, secrets included
    except RuntimeError as error:
        raise errors.FatalError(
            f"configuring a client at {access.where}: {error}; a process can have some thousand"
            " clients of the Kafka library: run fewer tasks in it, and more processes"
        ) from None
