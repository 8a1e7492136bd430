"""Asks connectors what their tasks are: code of others, that may raise anything, or never return.

What is asked runs on a thread of its own. A call that hangs holds the herder up once, not again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import dataclass, field

from connect_runtime.base import errors
from connect_runtime.core.herder import events
from connect_runtime.core.state import cluster_config
from connect_runtime.ports import worker as worker_port
from connect_runtime.system import pool

_LOG = logging.getLogger(__name__)

GENERATE_S = 30.0
"""A connector that takes longer to say what its tasks are is asked again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Applied:
    """What the tasks of this generation were made from, and what it stood for when first seen."""

    generation: int | None
    raw: cluster_config.RawConfig = field(repr=False)
    resolved: object = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    configs: Sequence[cluster_config.RawConfig] = field(repr=False)
    applied: _Applied | None
    is_applied: bool


@dataclass(slots=True, kw_only=True)
class _Call:
    """One that has not returned in time; `outdated`: the connector has wished for more since."""

    answer: futures.Future[_Answer | None]
    outdated: bool = False


class ConnectorCalls:
    """For the herder's thread alone. `resolve` fills in `${…}`.

    Invariant: at most one call of a connector is under way, for each time that it was started.
    """

    def __init__(
        self,
        worker: worker_port.Worker,
        *,
        calls: pool.Pool,
        resolve: Callable[[cluster_config.RawConfig], object],
    ) -> None:
        self._worker = worker
        self._calls = calls
        self._resolve = resolve
        self._late: dict[str, _Call] = {}
        self._applied: dict[str, _Applied] = {}

    def started(self, name: str) -> None:
        """What it said before it was started (again) is of no interest."""
        self._late.pop(name, None)

    def wished(self, name: str) -> None:
        """What it is saying now may be of before this wish."""
        if name in self._late:
            self._late[name].outdated = True

    def generate(self, name: str, view: cluster_config.ClusterConfig) -> events.Outcome:
        """The answer to `GenerateTaskConfigs`. Raises `RetriableError` when too many calls wait."""
        self._forget_removed(view)
        config = view.config(name)
        if config is None:
            return events.NotRunning()
        call, timeout_s = self._late.pop(name, None), 0.0
        if call is None or (call.outdated and call.answer.done()):
            answer = self._calls.submit(self._question(name, config, view))
            call, timeout_s = _Call(answer=answer), GENERATE_S
        if futures.wait([call.answer], timeout=timeout_s).done:
            return self._outcome(name, call.answer)
        self._late[name] = call
        return events.Failed(
            reason=f"connector {name} has not said what its tasks are for {GENERATE_S:g} s"
        )

    def _question(
        self, name: str, config: cluster_config.RawConfig, view: cluster_config.ClusterConfig
    ) -> Callable[[], _Answer | None]:
        known, raw, generation = (
            self._applied.get(name),
            view.applied_config(name),
            view.generation(name),
        )

        def ask() -> _Answer | None:
            configs = self._worker.task_configs(name, config)
            if configs is None:
                return None
            if raw is None:
                return _Answer(configs=configs, applied=None, is_applied=False)
            if known is not None and known.generation == generation and known.raw == raw:
                applied: _Applied | None = known
            else:
                applied = self._filled_in(raw, generation)
            now = self._resolve(config)
            is_applied = applied is not None and applied.resolved == now
            return _Answer(configs=configs, applied=applied, is_applied=is_applied)

        return ask

    def _filled_in(self, raw: cluster_config.RawConfig, generation: int | None) -> _Applied | None:
        """None where it refers to what is not there any more: another one takes its place."""
        try:
            return _Applied(generation=generation, raw=raw, resolved=self._resolve(raw))
        except errors.ConnectError as error:
            _LOG.info("what tasks were made from cannot be told any more: %s", error)
            return None

    def _outcome(self, name: str, said: futures.Future[_Answer | None]) -> events.Outcome:
        error = said.exception()
        if error is not None:
            return _failed(name, error)
        answer = said.result()
        if answer is None:
            return events.NotRunning()
        if answer.applied is not None:
            self._applied[name] = answer.applied
        return events.Generated(configs=answer.configs, config_applied=answer.is_applied)

    def _forget_removed(self, view: cluster_config.ClusterConfig) -> None:
        """What configurations stand for is secret."""
        for name in [name for name in self._applied if not view.contains(name)]:
            del self._applied[name]


def _failed(name: str, error: BaseException) -> events.Failed:
    """Whatever it is, it is not the herder that is at fault."""
    if isinstance(error, errors.ConnectError):
        lasting = isinstance(error, worker_port.TooManyTasks)
        if lasting:
            _LOG.error("%s", error)
        return events.Failed(reason=str(error), lasting=lasting)
    _LOG.error("connector %s threw when asked what its tasks are", name, exc_info=error)
    return events.Failed(reason=f"connector {name} threw when asked what its tasks are: {error!r}")
