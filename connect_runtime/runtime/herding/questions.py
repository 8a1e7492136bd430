"""Answers the herder's questions: writes, starts, stops and asks, and waits for what comes of it.

One at a time, on the herder's thread; each ends within a deadline of its own.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from connect_runtime.base import errors, ids
from connect_runtime.core.assignment import work
from connect_runtime.core.herder import events, instructions, session_keys
from connect_runtime.core.state import cluster_config
from connect_runtime.ports import fenced_writer
from connect_runtime.ports import worker as worker_port
from connect_runtime.runtime.herding import connector_calls
from connect_runtime.runtime.stores import config_store, status_store
from connect_runtime.system import pool

_LOG = logging.getLogger(__name__)

FLUSH_S = 10.0
"""Enough for a broker that was elected anew; what is not acknowledged then is still tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What questions are answered with. `resolve` is `task_bodies.Surroundings.resolved`."""

    configs: config_store.ConfigStore
    statuses: status_store.StatusStore
    worker: worker_port.Worker
    calls: pool.Pool
    keys: session_keys.KeySettings
    resolve: Callable[[cluster_config.RawConfig], object]


class Questions:
    """For the herder's thread alone."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._connectors = connector_calls.ConnectorCalls(
            hands.worker, calls=hands.calls, resolve=hands.resolve
        )

    def answer(self, question: instructions.Question) -> events.Outcome:
        """What came of it; raises nothing that is not a mistake of ours."""
        hands = self._hands
        try:
            match question:
                case instructions.ReadConfigs(timeout_s):
                    return self._read(timeout_s)
                case instructions.ClaimWrites():
                    hands.configs.claim_writes()
                case instructions.Write(write):
                    self._write(write)
                case instructions.FlushStatuses():
                    return self._flush()
                case _:
                    return self._answer_for_worker(question)
        except fenced_writer.PrivilegeLost as error:
            return events.Failed(reason=str(error), fenced=True)
        except errors.ConnectError as error:
            return events.Failed(reason=str(error))
        return events.Done()

    def _answer_for_worker(
        self,
        question: instructions.StopWork
        | instructions.StartWork
        | instructions.RenewTasks
        | instructions.GenerateTaskConfigs,
    ) -> events.Outcome:
        hands = self._hands
        match question:
            case instructions.StopWork(what):
                hands.worker.stop(what)
                return events.Done()
            case instructions.StartWork(what):
                return self._start(what)
            case instructions.RenewTasks(tasks):
                return self._renew(tasks)
            case instructions.GenerateTaskConfigs(name):
                return self._connectors.generate(name, hands.configs.snapshot())

    def wished(self, connector: str) -> None:
        """It says that its task configs would be others now."""
        self._connectors.wished(connector)

    def stop_all(self) -> None:
        """The end: stop whatever runs still."""
        self._hands.worker.close()

    def _read(self, timeout_s: float) -> events.Outcome:
        try:
            self._hands.configs.refresh(timeout_s)
        except errors.ConnectError as error:
            _LOG.warning("%s", error)
            return events.TimedOut()
        return events.Done()

    def _flush(self) -> events.Outcome:
        """Nobody waits longer for it: so it is told here."""
        try:
            self._hands.statuses.flush(FLUSH_S)
        except errors.ConnectError as error:
            _LOG.warning("going on before others can know what has stopped: %s", error)
            return events.Failed(reason=str(error))
        return events.Done()

    def _write(self, write: instructions.ConfigWrite) -> None:
        configs = self._hands.configs
        match write:
            case instructions.WriteConnector(connector=name, config=config, target_state=state):
                configs.put_connector(name, config, target_state=state)
            case instructions.RemoveConnector(name):
                configs.remove_connector(name)
            case instructions.WriteTaskConfigs(connector=name, configs=task_configs):
                configs.put_task_configs(name, task_configs)
            case instructions.WriteTargetState(connector=name, state=state):
                configs.put_target_state(name, state)
            case instructions.WriteRestart(request):
                configs.put_restart(request)
            case instructions.WriteNewSessionKey(created_ms=created_ms):
                configs.put_session_key(self._new_key(created_ms))
            case instructions.WriteFencingCount(connector=name, tasks=tasks):
                configs.put_fencing_count(name, tasks)

    def _new_key(self, created_ms: int) -> cluster_config.SessionKey:
        settings = self._hands.keys
        entropy = secrets.token_bytes(settings.key_bytes)
        return session_keys.new_key(settings, entropy=entropy, wall_ms=created_ms)

    def _start(self, what: work.Work) -> events.Outcome:
        view = self._hands.configs.snapshot()
        failed: list[tuple[work.Item, str]] = []
        for item in what.items:
            try:
                self._begin(item, view)
            except errors.ConnectError as error:
                _LOG.error("%s was not started: %s", item, error)
                failed.append((item, str(error)))
        return events.Started(tuple(failed))

    def _renew(self, tasks: Sequence[ids.ConnectorTaskId]) -> events.Outcome:
        view = self._hands.configs.snapshot()
        configured: dict[ids.ConnectorTaskId, worker_port.TaskConfigured] = {}
        for task in tasks:
            config, of_task = view.config(task.connector), view.task_config(task)
            if view.has(task) and config is not None and of_task is not None:
                configured[task] = worker_port.TaskConfigured(connector=config, config=of_task)
        left = self._hands.worker.renew_tasks(configured)
        return events.Renewed(left | (set(tasks) - configured.keys()))

    def _begin(self, item: work.Item, view: cluster_config.ClusterConfig) -> None:
        name = item if isinstance(item, str) else item.connector
        config, state = view.config(name), view.target_state(name)
        if config is None:
            raise errors.FatalError(f"connector {name} is configured no more")
        state = state or cluster_config.TargetState.STARTED
        if isinstance(item, str):
            self._connectors.started(name)
            self._hands.worker.start_connector(name, config, state)
            return
        task_config = view.task_config(item)
        if task_config is None:
            raise errors.FatalError(f"task {item} is configured no more")
        self._hands.worker.start_task(
            item,
            connector=config,
            config=task_config,
            state=state,
            tasks=view.task_count(name),
        )
