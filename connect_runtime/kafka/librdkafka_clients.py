"""Creates configured librdkafka producers, consumers and admin clients.

Connection errors are collected, and logs and errors contain no secrets.

librdkafka resolves an admin client's futures on that client's own thread. This thread may drop the
last reference to the client, either in a callback or with the stack frames of a failed request's
error. A client that is freed on its own thread aborts the process ("rd_kafka_destroy() called from
librdkafka owned thread"). Dropped admin clients are therefore kept until another thread creates or
polls an admin client.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.base.errors import FatalError
from connect_runtime.kafka import client_errors, librdkafka_log
from connect_runtime.kafka.client_errors import ConnectionReports
from connect_runtime.kafka.cluster_access import KafkaClusterAccess


class SafelyFreedAdminClient(library.AdminClient):
    """AdminClient that is freed only by a thread that creates or polls a client of this class.

    If no thread does so, dropped clients are kept until the process exits.
    """

    # A class attribute, because module globals are gone when the interpreter shuts down.
    _dropped: queue.SimpleQueue[SafelyFreedAdminClient] = queue.SimpleQueue()

    def __init__(self, config: dict[str, Any], **kwargs: Any) -> None:
        """Free dropped clients, then create a client. Raises the errors of `AdminClient`."""
        self._free_dropped_clients()
        super().__init__(config, **kwargs)

    def poll(self, timeout: float = -1.0) -> int:
        """Free dropped clients, then poll. `timeout` in seconds; below 0 waits forever."""
        self._free_dropped_clients()
        return super().poll(timeout)

    def __del__(self) -> None:
        """Put the last reference into the queue, so that another thread frees the client.

        The queue's `put` is reentrant.
        """
        self._dropped.put(self)

    def _free_dropped_clients(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._dropped.get_nowait()


def create_producer(
    access: KafkaClusterAccess,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: ConnectionReports,
) -> confluent_kafka.Producer:
    """Create a producer. `settings` (librdkafka's names) override defaults.

    Raises `FatalError` for invalid settings.
    """
    config = _build_config(access, client_id=client_id, settings=settings, reports=reports)
    with _explain_creation_failure(access):
        return confluent_kafka.Producer(config, logger=librdkafka_log.get_cluster_logger(access))


def create_consumer(
    access: KafkaClusterAccess,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: ConnectionReports,
) -> confluent_kafka.Consumer:
    """Create a consumer. `settings` (librdkafka's names) override defaults.

    Raises `FatalError` for invalid settings.
    """
    config = _build_config(access, client_id=client_id, settings=settings, reports=reports)
    with _explain_creation_failure(access):
        return confluent_kafka.Consumer(config, logger=librdkafka_log.get_cluster_logger(access))


def create_admin_client(
    access: KafkaClusterAccess,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: ConnectionReports,
) -> library.AdminClient:
    """Create an admin client. `settings` (librdkafka's names) override defaults.

    Raises `FatalError` for invalid settings.
    """
    config = _build_config(access, client_id=client_id, settings=settings, reports=reports)
    with _explain_creation_failure(access):
        return SafelyFreedAdminClient(config, logger=librdkafka_log.get_cluster_logger(access))


def _build_config(
    access: KafkaClusterAccess,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: ConnectionReports,
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
        "error_cb": _redact_errors(access, reports.on_error),
    }


def _redact_errors(
    access: KafkaClusterAccess, on_error: Callable[[confluent_kafka.KafkaError], None]
) -> Callable[[confluent_kafka.KafkaError], None]:
    """Wrap an error callback so that secrets are redacted from the errors.

    librdkafka repeats a token issuer's response, which may contain the secret that was sent.
    """
    forms = librdkafka_log.list_secret_forms(access)
    if not forms:
        return on_error
    return lambda error: on_error(
        confluent_kafka.KafkaError(error.code(), librdkafka_log.redact_secrets(error.str(), forms))
    )


@contextlib.contextmanager
def _explain_creation_failure(access: KafkaClusterAccess) -> Iterator[None]:
    """Translate client creation errors: invalid settings or certificates, and too many clients.

    Each client uses one of the 1,024 thread-local keys of a process.
    """
    try:
        yield
    except confluent_kafka.KafkaException as error:
        raise client_errors.translate_error(
            error.args[0], "configuring a client", where=access.where
        ) from None  # the exception's context contains the configuration, including secrets
    except RuntimeError as error:
        raise FatalError(
            f"configuring a client at {access.where}: {error}; a process can have about a thousand"
            " librdkafka clients: run fewer tasks per process"
        ) from None
