"""One life of a source connector, from its start to its stop: looks, and a thread that looks again.

What is found is told to people once, and to tasks where it concerns them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from connect_runtime.api import context as contexts
from connect_runtime.base import amounts, errors
from connect_runtime.system import threads
from mm2.connectors import board, complaints
from mm2.connectors.share import task_report
from mm2.connectors.source import source_clients, source_looks, source_shares, task_loads
from mm2.core.configs import connector_configs
from mm2.core.topics import news
from mm2.core.topics import rounds as topic_rounds

CLOSE_S = 5.0
LOOKING, SETTINGS, ACLS = "looking for topics", "settings of mirrors", "ACLs of mirrors"
LOADS = "loads of tasks"
_LOG = logging.getLogger(__name__)
_LOGGED: dict[str, str] = {}
"""By flow: how many partitions its connector found last when it started in this process."""


class SourceWatch:
    """Started and stopped once. A thread that does not end in time keeps to itself."""

    def __init__(
        self,
        config: connector_configs.SourceConfig,
        context: contexts.SourceConnectorContext,
        make_clients: source_clients.MakeClients,
    ) -> None:
        self._config = config
        self._context = context
        self._make_clients = make_clients
        self._leaving = threading.Event()
        self._starting = True
        self._threads = threads.Threads(on_unasked_end=self._ended)
        self._looks: source_looks.SourceLooks | None = None
        self._told: source_looks.Found | None = None
        self._complaints = complaints.Complaints(_LOG, clock=context.clock)
        self._place = board.BOARD.connector(config.flow.name)
        self._place.put(board.ConnectorShown(planned=False, reason="both clusters are asked"))
        self._shares = source_shares.SourceShares(
            config,
            published=context.task_configs,
            loads=task_loads.TaskLoads(config.flow.name),
        )

    def start(self) -> None:
        """Make what the flow needs, and look. Raises `FatalError` where a cluster refuses us, or a
        topic."""
        config, clock = self._config, self._context.clock
        clients = self._make_clients(config, clock=clock, gone=self._is_gone)
        self._looks = source_looks.SourceLooks(
            config, clients, clock=clock, wait=self._wait, gone=self._is_gone
        )
        self._looks.create_topics(lambda why: self._show(reason=why))
        rounds = topic_rounds.of(config, now_s=clock.now_s())
        self._run(rounds.looks, LOOKING, self._look_first)
        self._starting = False
        self._threads.start(f"topics-{config.common.name}", lambda stop: self._watch(rounds, stop))

    def stop(self) -> None:
        self._leaving.set()
        self._place.leave()
        for name in self._threads.stop_all(CLOSE_S):
            _LOG.error("thread %s did not stop in time and is left to itself", name)
            return
        if self._looks is not None:
            self._looks.close()
            self._looks = None

    def task_configs(self, props: Mapping[str, str], tasks_max: int) -> list[dict[str, str]]:
        """Raises `RetriableError` before the topics of the source are known."""
        return self._shares.task_configs(props, tasks_max)

    # Its thread

    def _watch(self, rounds: topic_rounds.Rounds, stop: threading.Event) -> None:
        looks, clock = self._looks, self._context.clock
        assert looks is not None
        while not stop.wait(rounds.pause_s(clock.now_s())):
            now_s = clock.now_s()
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
            every.failed(self._context.clock.now_s())
            if not self._is_gone():
                self._complaints.say(about, f"{error}; it is tried again")
                self._show(reason=str(error))
        else:
            every.done(self._context.clock.now_s())
            self._complaints.over(about)

    def _look_first(self) -> None:
        self._look(settings=True)

    def _look_again(self) -> None:
        """Tasks are told only of what concerns them."""
        first = not self._shares.known
        self._look(settings=first)
        if (first or self._shares.are_news()) and not self._is_gone():
            self._context.request_task_reconfiguration()

    def _look(self, *, settings: bool) -> None:
        assert self._looks is not None
        syncs = settings and self._config.flow.syncs_topic_configs
        found = self._looks.look(self._shares.topics(), settings=syncs)
        self._shares.found(found.looked)
        self._tell(found)

    def _even_out(self) -> None:
        if self._shares.are_moved(self._context.clock.now_s()) and not self._is_gone():
            _LOG.info("a task carries too much: partitions are moved")
            self._context.request_task_reconfiguration()

    # What people are told

    def _tell(self, found: source_looks.Found) -> None:
        """What is new since the last look."""
        told, self._told = self._told, found
        known = set() if told is None else {*told.warnings, *(e.message for e in told.findings)}
        for line in dict.fromkeys((*found.warnings, *(each.message for each in found.findings))):
            if line not in known:
                _LOG.warning("%s", line)
        if told is None:
            copyable = found.looked.copyable
            self._log_first(
                f"{amounts.counted(len(copyable), 'partition')} of "
                f"{amounts.counted(len({each.topic for each in copyable}), 'topic')} "
                f"{amounts.agreeing(len(copyable), 'are')} mirrored"
            )
        else:
            for line in news.of_partitions(told.looked.copyable, found.looked.copyable):
                _LOG.info("%s", line)
            for line in news.of_gone(told.looked.topics, found.looked.topics):
                _LOG.warning("%s", line)
        self._show()

    def _log_first(self, line: str) -> None:
        """Not again after the connector was restarted, or given another throttle, say."""
        flow = self._config.flow.name
        if _LOGGED.get(flow) != line:
            _LOGGED[flow] = line
            _LOG.info("%s: %s", flow, line)

    def _show(self, *, reason: str = "") -> None:
        """On the board; `reason` is for those who wait for the first look."""
        found = self._told
        if found is None:
            self._place.put(board.ConnectorShown(planned=False, reason=reason))
            return
        findings = tuple(task_report.found_status(each, task=-1) for each in found.findings)
        self._place.put(
            board.ConnectorShown(
                planned=True,
                findings=findings,
                warnings=found.warnings,
                copyable=len(found.looked.copyable),
                props=self._config.common.props,
            )
        )

    # Its end

    def _is_gone(self) -> bool:
        return self._leaving.is_set() or (self._starting and self._context.wait(0.0))

    def _wait(self, timeout_s: float) -> bool:
        """At the start the worker says when to stop waiting, later `stop` does."""
        return self._context.wait(timeout_s) if self._starting else self._leaving.wait(timeout_s)

    def _ended(self, end: threads.UnaskedEnd) -> None:
        """The thread broke down: topics that come would not be mirrored."""
        error = end.error
        self._context.raise_error(
            error if isinstance(error, Exception) else errors.FatalError(f"{end.name} has ended")
        )
