"""Collects what `readiness` evaluates: cluster ids, ACLs, journal, export file and hooks."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2.clusters import mirror_state
from mm2.clusters.connect_group import ConnectGroupSnapshot
from mm2.clusters.flow_pair import FlowClusters
from mm2.failover import flow_stop, journal_file, move_steps
from mm2.failover.hooks import HookCommands
from mm2.failover.move_request import ClusterIds, MoveRequest
from mm2.failover.move_steps import MoveStep
from mm2.failover.readiness import MoveReadiness
from mm2.kafka.client_interfaces import AuthorizedOperations
from mm2.operator_commands import ClusterCommands


def fetch_cluster_ids(both: FlowClusters, *, lost: bool, timeout_s: float) -> ClusterIds:
    """A source that does not answer tells none, and one that is `lost` is not asked. Raises
    `RetriableError` and `FatalError` where the target does not answer, or one refuses us."""
    origin = ""
    if not lost:
        with contextlib.suppress(RetriableError):
            origin = both.source.admin.cluster_id(mirror_state.compute_source_timeout_s(timeout_s))
    return ClusterIds(origin=origin, destination=both.target.admin.cluster_id(timeout_s))


T = TypeVar("T")
MAX_TRANSACTIONAL_IDS = 1_000
"""Of so many partitions it is asked whether they could be fenced."""


class AuthorizationReader(Protocol):
    """Of one login: `kafka_rights.KafkaRights`."""

    def of_topics(
        self, names: Sequence[str], timeout_s: float
    ) -> Mapping[str, AuthorizedOperations]: ...

    def of_groups(
        self, names: Sequence[str], timeout_s: float
    ) -> Mapping[str, AuthorizedOperations]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessChecks:
    """`connect_group` looks at the flow's Connect group; `clusters` is given whether the one that
    is left is silent; `denied_ids` says which transactional ids we have no right to; `as_worker`
    and `as_admin` tell of the rights of who stops, and of who moves groups, with whom people know
    them as (`ClusterCommands`)."""

    flow: str
    config_topic: str
    workers: Callable[[], ConnectGroupSnapshot]
    clusters: Callable[[bool], ClusterIds]
    transactional_id: Callable[[TopicPartition], str]
    denied_ids: Callable[[Sequence[str]], Sequence[str]]
    as_worker: Callable[[], AuthorizationReader]
    as_admin: Callable[[], AuthorizationReader]
    known_as: Mapping[str, ClusterCommands]
    hooks: HookCommands
    timeout_s: float

    def look(
        self,
        wanted: MoveRequest,
        journal: pathlib.Path,
        *,
        groups: Collection[str],
        partitions: Collection[TopicPartition],
        silent: bool,
    ) -> MoveReadiness:
        """For a move of these groups, of a flow that has copied these partitions; `silent`: the
        cluster that is left is not waited for once more. What may heal and does not answer is told
        as not looked at. Raises `FatalError`."""
        unlooked: list[str] = []

        def ask(look: Callable[[], T], otherwise: T) -> T:
            try:
                return look()
            except RetriableError as error:
                unlooked.append(str(error))
                return otherwise

        names = [self.transactional_id(each) for each in sorted(partitions)[:MAX_TRANSACTIONAL_IDS]]
        return MoveReadiness(
            flow=self.flow,
            config_topic=self.config_topic,
            connectors=ask(
                lambda: flow_stop.list_configured_connectors(self.workers()),
                flow_stop.STOPPED_CONNECTORS,
            ),
            may_stop=ask(self._may_stop, None),
            denied_ids=ask(lambda: self.denied_ids(names), ()),
            denied_groups=ask(lambda: self._denied_groups(sorted(groups)), ()),
            no_journal=journal_file.explain_unusable_path(journal),
            no_export=explain_unwritable_export(wanted.export),
            no_hooks=explain_missing_hooks(
                self.hooks, move_steps.order_steps(wanted, sorted(self.hooks))
            ),
            others=journal_file.find_unfinished_moves(
                journal.absolute().parent, (wanted.origin, wanted.destination), but=journal
            ),
            clusters=ask(lambda: self.clusters(silent), ClusterIds()),
            unlooked=unlooked,
            **self.known_as,
        )

    def _may_stop(self) -> bool | None:
        with contextlib.closing(self.as_worker()) as asking:
            held = asking.of_topics([self.config_topic], self.timeout_s)[self.config_topic]
        return _is_authorized(held, "WRITE")

    def _denied_groups(self, names: Sequence[str]) -> Sequence[str]:
        with contextlib.closing(self.as_admin()) as asking:
            held = asking.of_groups(names, self.timeout_s)
        return [name for name in names if _is_authorized(held[name], "READ") is False]


def explain_unwritable_export(path: str) -> str:
    """ "" where it can be written, or is not asked for."""
    if not path:
        return ""
    if os.path.lexists(path):
        return f"{path} is there already: move it away, or name another file"
    folder = os.path.dirname(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{path} cannot be made: {folder} is no folder that may be written"
    return ""


def explain_missing_hooks(given: HookCommands, order: Collection[MoveStep]) -> dict[str, str]:
    """By step, of those that the move takes."""
    return {
        step.value: f"there is no command {given[step.value].command[0]}"
        for step in order
        if step.value in given and shutil.which(given[step.value].command[0]) is None
    }


def _is_authorized(held: AuthorizedOperations, operation: str) -> bool | None:
    """None: brokers do not tell."""
    if held.operations is None:
        return None
    return bool(held.operations & {operation, "ALL"})
