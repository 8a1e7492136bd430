"""Changes settings of topics and brokers while traffic is written."""

from __future__ import annotations

from collections.abc import Mapping

import confluent_kafka
from confluent_kafka import admin as library

from mm2.sandbox import clients

_TIMEOUT_S = 30.0
EAGER_CLEANER = {"log.cleaner.backoff.ms": "100"}
"""The cleaner looks ten times a second for something to do, not every 15 s."""


class Settings:
    """Of one cluster. A value of None takes a setting back to its default."""

    def __init__(self, of: clients.Clients) -> None:
        self._clients = of
        self._admin = of.admin("odd-settings")

    def change_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        self._change(library.ResourceType.TOPIC, name, changes=changes)

    def change_brokers(self, changes: Mapping[str, str | None]) -> None:
        """All that are up; lost at no restart."""
        for node_id in sorted(self._admin.list_topics(timeout=_TIMEOUT_S).brokers):
            self._change(library.ResourceType.BROKER, str(node_id), changes=changes)

    def _change(
        self, kind: library.ResourceType, name: str, *, changes: Mapping[str, str | None]
    ) -> None:
        entries = [
            library.ConfigEntry(
                key,
                "" if value is None else value,
                incremental_operation=(
                    library.AlterConfigOpType.DELETE
                    if value is None
                    else library.AlterConfigOpType.SET
                ),
            )
            for key, value in changes.items()
        ]
        resource = library.ConfigResource(kind, name, incremental_configs=entries)

        def ask() -> None:
            waiting = self._admin.incremental_alter_configs([resource], request_timeout=_TIMEOUT_S)
            doing = f"changing settings of {name}"
            try:
                waiting[resource].result(_TIMEOUT_S)
            except TimeoutError:
                raise self._clients.overdue(doing) from None
            except confluent_kafka.KafkaException as error:
                raise self._clients.explain(error.args[0], doing) from None

        clients.repeated(ask)
