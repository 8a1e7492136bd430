"""Creates configured librdkafka producers, consumers and admin clients.

Their connection errors are collected, and their logs and errors contain no secrets.

librdkafka resolves the futures of an admin client on that client's own thread, where the last
reference to the client may be dropped: by a callback, or with the frames that a failed request's
error holds. A client freed on its own thread aborts the process ("rd_kafka_destroy() called from
librdkafka owned thread"). Dropped admin clients are therefore kept until another thread creates or
polls one.
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
    """The library's, but for where it is freed: never where it was let go, always by a caller of
    `SafelyFreedAdminClient` or `poll`. A process that goes on without either keeps it to its end.
    """

    # Here, not in the module, whose names are gone at the end of the interpreter.
    _let_go: queue.SimpleQueue[SafelyFreedAdminClient] = queue.SimpleQueue()

    def __init__(self, config: dict[str, Any], **kwargs: Any) -> None:
        """As the library's; raises as it does."""
        self._free()
        super().__init__(config, **kwargs)

    def poll(self, timeout: float = -1.0) -> int:
        """As the library's; `timeout` in seconds, for ever below 0."""
        self._free()
        return super().poll(timeout)

    def __del__(self) -> None:
        """Called once; from here on the queue has the last reference. Its `put` may be called in
        the midst of anything, of itself too."""
        self._let_go.put(self)

    def _free(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._let_go.get_nowait()


def create_producer(
    access: KafkaClusterAccess,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: ConnectionReports,
) -> confluent_kafka.Producer:
    """A producer; `settings` (librdkafka's names) win. Raises `FatalError` on refused settings."""
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
    """A consumer; `settings` (librdkafka's names) win. Raises `FatalError` on refused settings."""
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
    """An admin client; `settings` (librdkafka's names) win. Raises `FatalError` on refused
    settings."""
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
    """The library repeats what an issuer answers, and an issuer may repeat what it was sent."""
    forms = librdkafka_log.list_secret_forms(access)
    if not forms:
        return on_error
    return lambda error: on_error(
        confluent_kafka.KafkaError(error.code(), librdkafka_log.redact_secrets(error.str(), forms))
    )


@contextlib.contextmanager
def _explain_creation_failure(access: KafkaClusterAccess) -> Iterator[None]:
    """The library checks settings, certificates included, when a client is made; and each has a
    thread-local key of the process, of which there are 1,024."""
    try:
        yield
    except confluent_kafka.KafkaException as error:
        raise client_errors.translate_error(
            error.args[0], "configuring a client", where=access.where
        ) from None  # its context holds the configuration, secrets included
    except RuntimeError as error:
        raise FatalError(
            f"configuring a client at {access.where}: {error}; a process can have some thousand"
            " clients of the Kafka library: run fewer tasks in it, and more processes"
        ) from None
