"""Ordinary Kafka clients (librdkafka) for traffic and proof, from Java client properties.

Nothing of the copy path lies in between: what these clients write and read is what users' own
clients would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import confluent_kafka
from confluent_kafka import admin as kafka_admin

from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import clients as kafka_clients
from connect_runtime.kafka_client import translate_errors
from connect_runtime.system import polling
from connect_runtime.wire.connection import store_files
from mm2.sandbox import failures

PURGED = translate_errors.PURGED
"""Codes of records that were dropped because we said so."""

_REPEAT_S = 60.0
_REPEAT_EVERY_S = 0.1

T = TypeVar("T")
Properties = Mapping[str, str]
"""As `Cluster.client_properties()` gives them."""


class ClientFailedError(failures.SandboxError):
    """A client could not do what was asked."""


class Clients:
    """Makes clients of one cluster; `alias` is its name in messages."""

    def __init__(self, properties: Properties, *, alias: str) -> None:
        self._reports = translate_errors.ConnectionReports()
        try:
            self._access = kafka_access.parse(
                properties, files=store_files.below(Path()), name=alias
            )
        except errors.FatalError as error:
            raise ClientFailedError(f"client properties of {alias}: {error}") from None

    def producer(self, client_id: str, **settings: object) -> confluent_kafka.Producer:
        """`settings` are librdkafka's, `_` for `.`. A missing topic is an error after 10 s."""
        ours = {"topic_metadata_propagation_max_ms": 10_000}
        return kafka_clients.producer(
            self._access,
            client_id=client_id,
            settings=_dotted(ours | settings),
            reports=self._reports,
        )

    def consumer(self, client_id: str, **settings: object) -> confluent_kafka.Consumer:
        """A consumer for `assign`: it joins no group and commits nothing."""
        ours = {
            "group_id": f"{client_id}-unused",
            "enable_auto_commit": False,
            "auto_offset_reset": "error",
            "enable_partition_eof": True,
            "check_crcs": True,
        }
        return kafka_clients.consumer(
            self._access,
            client_id=client_id,
            settings=_dotted(ours | settings),
            reports=self._reports,
        )

    def admin(self, client_id: str) -> kafka_admin.AdminClient:
        return kafka_clients.admin_client(
            self._access, client_id=client_id, settings={}, reports=self._reports
        )

    def explain(self, error: confluent_kafka.KafkaError, doing: str) -> errors.ConnectError:
        """Our error for the library's; `doing` begins its message."""
        return translate_errors.translate(
            error, doing, where=self._access.where, reports=self._reports
        )

    def overdue(self, doing: str) -> errors.ConnectError:
        """Our error for a wait of ours that took too long."""
        return self.explain(translate_errors.timed_out(), doing)


def repeated(ask: Callable[[], T], *, timeout_s: float = _REPEAT_S) -> T:
    """Return what `ask` returns; repeat it as long as it raises `RetriableError`.

    A coordinator that loads, or a leader that moves, is no failure. Raises the last
    `RetriableError` after `timeout_s`. A request whose answer was lost may have been carried out:
    `ask` has to bear that.
    """
    answers: list[T] = []
    last: list[errors.RetriableError] = []

    def answered() -> bool:
        try:
            answers.append(ask())
        except errors.RetriableError as error:
            last[:] = [error]
        return bool(answers)

    if not polling.until(answered, timeout_s=timeout_s, interval_s=_REPEAT_EVERY_S):
        raise last[0]
    return answers[0]


def _dotted(settings: Mapping[str, object]) -> dict[str, object]:
    return {key.replace("_", "."): value for key, value in settings.items()}
