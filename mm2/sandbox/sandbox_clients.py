"""Ordinary Kafka clients (librdkafka) for traffic and verification, created from Java client
properties.

These clients share no code with the replication path, so they behave like a user's own clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import confluent_kafka
from confluent_kafka import admin as kafka_admin

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka import client_errors, librdkafka_clients, librdkafka_connection_settings
from connect_runtime.kafka.client_errors import RecentConnectionErrors
from connect_runtime.network import keystore_files
from connect_runtime.system import system_clock
from mm2.sandbox.sandbox_errors import SandboxError

PURGED_CODES = client_errors.PURGED_ERRORS
"""Error codes of records that a producer discarded because this process called `purge`."""

_RETRY_TIMEOUT_S = 60.0
_RETRY_INTERVAL_S = 0.1

T = TypeVar("T")
ClientProperties = Mapping[str, str]
"""Java client properties, as returned by `SandboxCluster.client_properties()`."""


class ClientFailedError(SandboxError):
    """A client request failed."""


class SandboxClients:
    """Creates Kafka clients for one cluster; `alias` is the cluster's name in messages."""

    def __init__(self, properties: ClientProperties, *, alias: str) -> None:
        self._reports = RecentConnectionErrors()
        try:
            self._access = librdkafka_connection_settings.parse_cluster_access(
                properties, files=keystore_files.create_store_files(Path()), name=alias
            )
        except FatalError as error:
            raise ClientFailedError(f"invalid client properties of {alias}: {error}") from None

    def create_producer(self, client_id: str, **settings: object) -> confluent_kafka.Producer:
        """Create a producer. `settings` are librdkafka settings with `_` instead of `.`.

        Producing to a missing topic fails after 10 s.
        """
        ours = {"topic_metadata_propagation_max_ms": 10_000}
        return librdkafka_clients.create_producer(
            self._access,
            client_id=client_id,
            settings=_replace_underscores(ours | settings),
            reports=self._reports,
        )

    def create_consumer(self, client_id: str, **settings: object) -> confluent_kafka.Consumer:
        """Create a consumer for use with `assign`. The consumer joins no group and commits no
        offsets."""
        ours = {
            "group_id": f"{client_id}-unused",
            "enable_auto_commit": False,
            "auto_offset_reset": "error",
            "enable_partition_eof": True,
            "check_crcs": True,
        }
        return librdkafka_clients.create_consumer(
            self._access,
            client_id=client_id,
            settings=_replace_underscores(ours | settings),
            reports=self._reports,
        )

    def create_admin_client(self, client_id: str) -> kafka_admin.AdminClient:
        return librdkafka_clients.create_admin_client(
            self._access, client_id=client_id, settings={}, reports=self._reports
        )

    def create_error(self, error: confluent_kafka.KafkaError, doing: str) -> ConnectError:
        """Convert a client error to a `ConnectError`. `doing` describes the failed operation and is
        the start of the error message."""
        return client_errors.translate_error(
            error, doing, where=self._access.name_and_addresses, reports=self._reports
        )

    def create_timeout_error(self, doing: str) -> ConnectError:
        """Create the exception for an operation that exceeded a timeout of this process, not a
        timeout of librdkafka."""
        return self.create_error(client_errors.create_timeout_error(), doing)


def retry_transient_errors(
    send_request: Callable[[], T], *, timeout_s: float = _RETRY_TIMEOUT_S
) -> T:
    """Return the result of `send_request`, retrying while it raises `RetriableError`.

    Examples of transient errors: the coordinator is still loading, or the partition leader is
    changing. Raises the last `RetriableError` after `timeout_s`. `send_request` must be idempotent
    because a request whose response was lost may have been executed.
    """
    answers: list[T] = []
    last: list[RetriableError] = []

    def try_request() -> bool:
        try:
            answers.append(send_request())
        except RetriableError as error:
            last[:] = [error]
        return bool(answers)

    if not system_clock.wait_until(try_request, timeout_s=timeout_s, interval_s=_RETRY_INTERVAL_S):
        raise last[0]
    return answers[0]


def _replace_underscores(settings: Mapping[str, object]) -> dict[str, object]:
    return {key.replace("_", "."): value for key, value in settings.items()}
