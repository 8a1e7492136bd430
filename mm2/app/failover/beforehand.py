"""Looks, before anything is stopped, at what a move will need later: `core/failover/readiness`."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from connect_runtime.base import errors, ids
from mm2.app.failover import hooks, journal_file, stopping
from mm2.app.looks import workers
from mm2.core import commands
from mm2.core.failover import orders, readiness, steps
from mm2.core.preflight import rights

T = TypeVar("T")
IDS_MAX = 1_000
"""Of so many partitions it is asked whether they could be fenced."""


class Rights(Protocol):
    """Of one login: `kafka_rights.KafkaRights`."""

    def of_topics(self, names: Sequence[str], timeout_s: float) -> Mapping[str, rights.Held]: ...

    def of_groups(self, names: Sequence[str], timeout_s: float) -> Mapping[str, rights.Held]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Beforehand:
    """`workers` looks at the flow's Connect group; `clusters` is given whether the one that is left
    is silent; `denied_ids` says which transactional ids we have no right to; `as_worker` and
    `as_admin` tell of the rights of who stops, and of who moves groups, with whom people know them
    as (`commands.Cluster`)."""

    flow: str
    config_topic: str
    workers: Callable[[], workers.Workers]
    clusters: Callable[[bool], orders.Clusters]
    transactional_id: Callable[[ids.TopicPartition], str]
    denied_ids: Callable[[Sequence[str]], Sequence[str]]
    as_worker: Callable[[], Rights]
    as_admin: Callable[[], Rights]
    known_as: Mapping[str, commands.Cluster]
    hooks: hooks.Hooks
    timeout_s: float

    def look(
        self,
        wanted: orders.Wanted,
        journal: pathlib.Path,
        *,
        groups: Collection[str],
        partitions: Collection[ids.TopicPartition],
        silent: bool,
    ) -> readiness.Ready:
        """For a move of these groups, of a flow that has copied these partitions; `silent`: the
        cluster that is left is not waited for once more. What may heal and does not answer is told
        as not looked at. Raises `FatalError`."""
        unlooked: list[str] = []

        def ask(look: Callable[[], T], otherwise: T) -> T:
            try:
                return look()
            except errors.RetriableError as error:
                unlooked.append(str(error))
                return otherwise

        names = [self.transactional_id(each) for each in sorted(partitions)[:IDS_MAX]]
        return readiness.Ready(
            flow=self.flow,
            config_topic=self.config_topic,
            connectors=ask(lambda: stopping.present(self.workers()), stopping.STOPPED),
            may_stop=ask(self._may_stop, None),
            denied_ids=ask(lambda: self.denied_ids(names), ()),
            denied_groups=ask(lambda: self._denied_groups(sorted(groups)), ()),
            no_journal=journal_file.why_not(journal),
            no_export=why_no_export(wanted.export),
            no_hooks=why_no_hooks(self.hooks, steps.order(wanted, sorted(self.hooks))),
            others=journal_file.others(
                journal.absolute().parent, (wanted.origin, wanted.destination), but=journal
            ),
            clusters=ask(lambda: self.clusters(silent), orders.Clusters()),
            unlooked=unlooked,
            **self.known_as,
        )

    def _may_stop(self) -> bool | None:
        with contextlib.closing(self.as_worker()) as asking:
            held = asking.of_topics([self.config_topic], self.timeout_s)[self.config_topic]
        return _holds(held, "WRITE")

    def _denied_groups(self, names: Sequence[str]) -> Sequence[str]:
        with contextlib.closing(self.as_admin()) as asking:
            held = asking.of_groups(names, self.timeout_s)
        return [name for name in names if _holds(held[name], "READ") is False]


def why_no_export(path: str) -> str:
    """ "" where it can be written, or is not asked for."""
    if not path:
        return ""
    if os.path.lexists(path):
        return f"{path} is there already: move it away, or name another file"
    folder = os.path.dirname(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{path} cannot be made: {folder} is no folder that may be written"
    return ""


def why_no_hooks(given: hooks.Hooks, order: Collection[steps.Step]) -> dict[str, str]:
    """By step, of those that the move takes."""
    return {
        step.value: f"there is no command {given[step.value].command[0]}"
        for step in order
        if step.value in given and shutil.which(given[step.value].command[0]) is None
    }


def _holds(held: rights.Held, operation: str) -> bool | None:
    """None: brokers do not tell."""
    if held.operations is None:
        return None
    return bool(held.operations & {operation, "ALL"})
