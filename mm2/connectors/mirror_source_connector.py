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

import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence

from connect_runtime.api import config_def, connector, records, task
from connect_runtime.base import errors, ids
from connect_runtime.system import clock as system_clock
from connect_runtime.system import threads
from mm2.connectors import (
    board,
    complaints,
    era_requests,
    mirror_source_task,
    source_clients,
    source_looks,
    source_shares,
    task_loads,
    task_report,
)
from mm2.core import connect_offsets
from mm2.core.configs import answers, checks, connector_configs, java_classes
from mm2.core.topics import rounds as topic_rounds

CLOSE_S = 5.0
LOOKING, SETTINGS, ACLS = "looking for topics", "settings of mirrors", "ACLs of mirrors"
LOADS = "loads of tasks"
_REQUEST_BYTES = 8
_LOG = logging.getLogger(__name__)


class MirrorSourceConnector(connector.SourceConnector):
    """Java's of the same name. A thread of its own looks at the clusters again."""

    default_converter = answers.BYTES

    def __init__(
        self, make_clients: source_clients.MakeClients = source_clients.KafkaClients
    ) -> None:
        self._make_clients = make_clients
        self._config: connector_configs.SourceConfig | None = None
        self._looks: source_looks.SourceLooks | None = None
        self._place: board.Place[board.ConnectorShown] | None = None
        self._shares: source_shares.SourceShares | None = None
        self._told: source_looks.Found | None = None
        self._leaving = threading.Event()
        self._starting = True
        self._threads = threads.Threads(on_unasked_end=self._ended)

    def version(self) -> str:
        return java_classes.VERSION

    def config(self) -> config_def.ConfigDef:
        return connector_configs.SOURCE

    def validate(self, props: Mapping[str, str]) -> list[config_def.ConfigValue]:
        return connector_configs.validate_source(props)

    def exactly_once_support(self, props: Mapping[str, str]) -> connector.ExactlyOnceSupport:
        return checks.exactly_once(props)

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
        clients = self._make_clients(config, clock=clock, gone=self._leaving.is_set)
        ledger = clients.ledger(list(positions))
        try:
            ledger.open(timeout_s)
            known = ledger.catch_up(timeout_s)
            begun = {
                name: position
                for name, position in positions.items()
                if known.partition(name).newest_era > 0
            }
            era_requests.record(begun, ledger, now=clock, new_id=_new_request)
        finally:
            ledger.close(CLOSE_S)

    def task_class(self) -> type[task.Task]:
        return mirror_source_task.MirrorSourceTask

    def start(self, props: Mapping[str, str]) -> None:
        """Raises `ConfigError`, and `FatalError` where a cluster refuses us, or a topic."""
        super().start(props)
        config = connector_configs.source(props)
        self._config = config
        if not config.common.enabled:
            return
        for key, words in answers.told(props):
            _LOG.warning("%s %s", key, words)
        context = self.context
        self._shares = source_shares.SourceShares(
            config,
            published=context.task_configs,
            loads=task_loads.TaskLoads(config.flow.name),
        )
        self._place = board.BOARD.connector(config.flow.name)
        self._place.put(board.ConnectorShown(planned=False, reason="both clusters are asked"))
        self._complaints = complaints.Complaints(_LOG, clock=context.clock)
        clients = self._make_clients(config, clock=context.clock, gone=self._is_gone)
        self._looks = source_looks.SourceLooks(
            config, clients, clock=context.clock, wait=self._wait, gone=self._is_gone
        )
        self._looks.create_topics()
        rounds = topic_rounds.of(config, now_s=context.clock.now_s())
        self._run(rounds.looks, LOOKING, self._look_first)
        self._starting = False
        self._threads.start(f"topics-{config.common.name}", lambda stop: self._watch(rounds, stop))

    def stop(self) -> None:
        self._leaving.set()
        if self._place is not None:
            self._place.leave()
        for name in self._threads.stop_all(CLOSE_S):
            _LOG.error("thread %s did not stop in time and is left to itself", name)
            return
        if self._looks is not None:
            self._looks.close()
            self._looks = None

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Raises `RetriableError` before the topics of the source are known."""
        assert self._config is not None, "it was not started"
        if self._shares is None:
            return []
        return self._shares.task_configs(self.props, max_tasks)

    # Its thread

    def _watch(self, rounds: topic_rounds.Rounds, stop: threading.Event) -> None:
        looks = self._looks
        assert looks is not None
        while not stop.wait(rounds.pause_s(self.context.clock.now_s())):
            now_s = self.context.clock.now_s()
            if rounds.looks.is_due(now_s):
                self._run(rounds.looks, LOOKING, self._look_again)
            if rounds.settings.is_due(now_s):
                self._run(rounds.settings, SETTINGS, looks.follow_settings)
            if rounds.acls.is_due(now_s):
                self._run(rounds.acls, ACLS, looks.follow_acls)
            if rounds.loads.is_due(now_s):
                self._run(rounds.loads, LOADS, self._even_out)

    def _run(self, every: topic_rounds.Round, about: str, do: Callable[[], None]) -> None:
        """As soon as somebody waits for its end, nothing is told. At the start what does not pass
        by itself is raised."""
        try:
            do()
        except errors.ConnectError as error:
            if self._starting and not isinstance(error, errors.RetriableError):
                raise
            every.failed(self.context.clock.now_s())
            if not self._is_gone():
                self._complaints.say(about, f"{error}; it is tried again")
                self._show(reason=str(error))
        else:
            every.done(self.context.clock.now_s())
            self._complaints.over(about)

    def _look_first(self) -> None:
        self._look(settings=True)

    def _look_again(self) -> None:
        """Tasks are told only of what concerns them."""
        shares = self._shares
        assert shares is not None
        first = not shares.known
        self._look(settings=first)
        if (first or shares.are_news()) and not self._is_gone():
            self.context.request_task_reconfiguration()

    def _look(self, *, settings: bool) -> None:
        config, looks, shares = self._config, self._looks, self._shares
        assert config is not None
        assert looks is not None
        assert shares is not None
        syncs = settings and config.flow.syncs_topic_configs
        found = looks.look(shares.topics(), settings=syncs)
        shares.found(found.looked)
        self._tell(config, found)

    def _even_out(self) -> None:
        assert self._shares is not None
        if self._shares.are_moved(self.context.clock.now_s()) and not self._is_gone():
            _LOG.info("a task carries too much: partitions are moved")
            self.context.request_task_reconfiguration()

    # What people are told

    def _tell(self, config: connector_configs.SourceConfig, found: source_looks.Found) -> None:
        """What is new since the last look."""
        told, self._told = self._told, found
        before = frozenset[str]() if told is None else told.looked.topics
        known = set() if told is None else {*told.warnings, *(e.message for e in told.findings)}
        for line in dict.fromkeys((*found.warnings, *(each.message for each in found.findings))):
            if line not in known:
                _LOG.warning("%s", line)
        if told is None or told.looked != found.looked:
            _LOG.info(
                "%s: %d partitions of %d topics are mirrored; %d topics are new, %d have gone",
                config.flow.name,
                len(found.looked.copyable),
                len({each.topic for each in found.looked.copyable}),
                len(found.looked.topics - before),
                len(before - found.looked.topics),
            )
        self._show()

    def _show(self, *, reason: str = "") -> None:
        """On the board; `reason` is for those who wait for the first look."""
        place, found = self._place, self._told
        if place is None:
            return
        if found is None:
            place.put(board.ConnectorShown(planned=False, reason=reason))
            return
        findings = tuple(task_report.found_status(each, task=-1) for each in found.findings)
        place.put(
            board.ConnectorShown(
                planned=True,
                findings=findings,
                copyable=len(found.looked.copyable),
                props=self.props,
            )
        )

    # Its end

    def _is_gone(self) -> bool:
        return self._leaving.is_set() or (self._starting and self.context.wait(0.0))

    def _wait(self, timeout_s: float) -> bool:
        """At the start the worker says when to stop waiting, later `stop` does."""
        return self.context.wait(timeout_s) if self._starting else self._leaving.wait(timeout_s)

    def _ended(self, end: threads.UnaskedEnd) -> None:
        """The thread broke down: topics that come would not be mirrored."""
        error = end.error
        self.context.raise_error(
            error if isinstance(error, Exception) else errors.FatalError(f"{end.name} has ended")
        )


def _new_request() -> str:
    return secrets.token_hex(_REQUEST_BYTES)
