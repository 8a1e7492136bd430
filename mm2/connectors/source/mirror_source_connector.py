"""MirrorSourceConnector: which topics of a source are mirrored, and by which task.

Configured with Java's keys, and does what Java's does: makes mirrors as large as their topics,
has their settings and ACLs follow, and looks again for what has come. Its tasks are told in Java's
words (`core/topics/assigned`), so that either side's tasks may be led by either side.

Other than Java's: partitions stay with their tasks, unless one carries too much for long, as far as
that is known (`task_loads`); what must not be copied as things are is handed to nobody, and told;
topics that come later are mirrored from their first record on, whatever the flow's start is
(`core/topics/handout` says how that is known without a store of its own).
"""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Mapping, Sequence

from connect_runtime.api import config_def, connector, records, task
from connect_runtime.base import errors, ids
from connect_runtime.system import clock as system_clock
from mm2.connectors.share import mirror_source_task
from mm2.connectors.source import era_requests, source_clients, source_watch
from mm2.core import connect_offsets
from mm2.core.configs import answers, checks, connector_configs, java_classes
from mm2.core.copy import record_transforms

_CLOSE_S = 5.0
_REQUEST_BYTES = 8
_LOG = logging.getLogger(__name__)


class MirrorSourceConnector(connector.SourceConnector):
    """Java's of the same name. It may be started again after it was stopped."""

    default_converter = answers.BYTES
    carries_out = frozenset(record_transforms.LISTS)

    def __init__(
        self, make_clients: source_clients.MakeClients = source_clients.KafkaClients
    ) -> None:
        self._make_clients = make_clients
        self._watch: source_watch.SourceWatch | None = None

    def version(self) -> str:
        return java_classes.VERSION

    def config(self) -> config_def.ConfigDef:
        return connector_configs.SOURCE

    def validate(self, props: Mapping[str, str]) -> list[config_def.ConfigValue]:
        return connector_configs.validate_source(props)

    def exactly_once_support(self, props: Mapping[str, str]) -> connector.ExactlyOnceSupport:
        return checks.exactly_once(props)

    def task_class(self) -> type[task.Task]:
        return mirror_source_task.MirrorSourceTask

    def start(self, props: Mapping[str, str]) -> None:
        """Raises `ConfigError`, and `FatalError` where a cluster refuses us, or a topic."""
        super().start(props)
        config = connector_configs.source(props)
        if not config.common.enabled:
            return
        for key, words in answers.told(props):
            _LOG.warning("%s %s", key, words)
        self._watch = source_watch.SourceWatch(config, self.context, self._make_clients)
        self._watch.start()

    def stop(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Raises `RetriableError` before the topics of the source are known."""
        watch = self._watch
        return [] if watch is None else watch.task_configs(self.props, max_tasks)

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[records.SourceOffset]
    ) -> bool:
        """Partitions that we have copied begin anew there: their progress is in the flow's map. Of
        all others these offsets are the progress, as in Java. Raises `ConnectError`."""
        connect_offsets.check_source(offsets)
        config = connector_configs.source(props)
        positions = connect_offsets.beginnings(
            offsets, cluster=config.common.source, start=config.flow.start.text
        )
        if positions:
            self._begin_anew(config, positions)
        return True

    def _begin_anew(
        self, config: connector_configs.SourceConfig, positions: Mapping[ids.TopicPartition, str]
    ) -> None:
        clock, timeout_s = system_clock.SystemClock(), config.common.admin_timeout_s
        clients = self._make_clients(config, clock=clock, gone=lambda: False)
        ledger = clients.ledger(list(positions))
        try:
            ledger.open(timeout_s)
            known = ledger.catch_up(timeout_s)
            for each in itertools.chain.from_iterable(map(known.unreadable, positions)):
                raise errors.FatalError(
                    each.describe(topic="the flow's offset map", flow=config.flow.name)
                )
            begun = {
                name: position
                for name, position in positions.items()
                if known.partition(name).newest_era > 0
            }
            era_requests.record(begun, ledger, now=clock, new_id=_new_request)
        finally:
            ledger.close(_CLOSE_S)


def _new_request() -> str:
    return secrets.token_hex(_REQUEST_BYTES)
