"""Collects the preconditions that `readiness` evaluates: cluster ids, ACLs, journal, export file
and hooks."""

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
from mm2.clusters import replication_progress
from mm2.clusters.connect_group_state import ConnectGroupSnapshot
from mm2.clusters.flow_cluster_pair import FlowClusters
from mm2.failover import failover_journal_file, failover_steps, flow_stop
from mm2.failover.failover_request import ClusterIds, FailoverRequest
from mm2.failover.failover_steps import FailoverStep
from mm2.failover.hook_commands import HookCommands
from mm2.failover.readiness import FailoverReadiness
from mm2.kafka.kafka_client_interfaces import AuthorizedOperations
from mm2.suggested_commands import ClusterCommands


def fetch_cluster_ids(both: FlowClusters, *, lost: bool, timeout_s: float) -> ClusterIds:
    """Fetch the Kafka cluster ids of origin and destination. The origin's id is "" if the origin
    does not respond, or if `lost` is true because the operator declared it lost.

    Raises `RetriableError` if the destination does not respond, and `FatalError` if either cluster
    denies access.
    """
    origin = ""
    if not lost:
        with contextlib.suppress(RetriableError):
            origin = both.source.admin.read_cluster_id(
                replication_progress.compute_source_timeout_s(timeout_s)
            )
    return ClusterIds(origin=origin, destination=both.target.admin.read_cluster_id(timeout_s))


T = TypeVar("T")
MAX_TRANSACTIONAL_IDS = 1_000
"""Maximum number of partitions for which the authorization to fence is checked."""


class AuthorizationReader(Protocol):
    """Reads the operations that one principal is authorized for; implemented by
    `AuthorizedOperationsClient`."""

    def read_topic_operations(
        self, names: Sequence[str], timeout_s: float
    ) -> Mapping[str, AuthorizedOperations]: ...

    def read_group_operations(
        self, names: Sequence[str], timeout_s: float
    ) -> Mapping[str, AuthorizedOperations]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessChecks:
    """Collects the preconditions for moving one flow's groups."""

    flow: str
    config_topic: str
    read_connect_group: Callable[[], ConnectGroupSnapshot]
    """Reads a snapshot of the flow's Connect group."""
    fetch_cluster_ids: Callable[[bool], ClusterIds]
    """Function that fetches the cluster ids of origin and destination. Its argument is True if the
    origin is known not to respond."""
    transactional_id: Callable[[TopicPartition], str]
    find_denied_ids: Callable[[Sequence[str]], Sequence[str]]
    """Function that returns those of the given transactional ids that mm2 is not authorized to
    use."""
    connect_as_worker: Callable[[], AuthorizationReader]
    """Connects to the destination as the principal that stops the flow."""
    connect_as_admin: Callable[[], AuthorizationReader]
    """Connects to the destination as the principal that writes offsets."""
    commands_by_login: Mapping[str, ClusterCommands]
    """Suggested commands on the destination, by principal (`worker`, `admin`, `producer`); see
    `FailoverReadiness`."""
    hooks: HookCommands
    timeout_s: float

    def collect_readiness(
        self,
        wanted: FailoverRequest,
        journal: pathlib.Path,
        *,
        groups: Collection[str],
        partitions: Collection[TopicPartition],
        silent: bool,
    ) -> FailoverReadiness:
        """Collect the preconditions for moving `groups` and the replicated `partitions`.

        If `silent` is true, the origin is known not to respond and is not queried again. A check
        that fails with a transient error is reported as not performed. Raises `FatalError` if a
        check fails with any other error, such as denied access.
        """
        unlooked: list[str] = []

        def query_cluster_or_default(look: Callable[[], T], otherwise: T) -> T:
            try:
                return look()
            except RetriableError as error:
                unlooked.append(str(error))
                return otherwise

        folder = journal.absolute().parent
        if foreign := failover_journal_file.describe_foreign_journals(folder):
            unlooked.append(foreign)
        names = [self.transactional_id(each) for each in sorted(partitions)[:MAX_TRANSACTIONAL_IDS]]
        return FailoverReadiness(
            flow=self.flow,
            config_topic=self.config_topic,
            connectors=query_cluster_or_default(
                lambda: flow_stop.list_configured_connectors(self.read_connect_group()),
                flow_stop.STOPPED_CONNECTORS,
            ),
            may_stop=query_cluster_or_default(self._is_flow_stop_authorized, None),
            denied_ids=query_cluster_or_default(lambda: self.find_denied_ids(names), ()),
            denied_groups=query_cluster_or_default(
                lambda: self._find_denied_groups(sorted(groups)), ()
            ),
            journal_error=failover_journal_file.explain_unusable_path(journal),
            export_error=explain_unwritable_export(wanted.export),
            hook_errors=explain_missing_hooks(
                self.hooks, failover_steps.order_steps(wanted, sorted(self.hooks))
            ),
            unfinished_failovers=failover_journal_file.find_unfinished_failovers(
                folder, (wanted.origin, wanted.destination), excluded=journal
            ),
            clusters=query_cluster_or_default(lambda: self.fetch_cluster_ids(silent), ClusterIds()),
            unchecked=unlooked,
            **self.commands_by_login,
        )

    def _is_flow_stop_authorized(self) -> bool | None:
        """Return whether the worker's principal may write to the config topic, which is needed to
        stop the flow; None if unknown."""
        with contextlib.closing(self.connect_as_worker()) as asking:
            held = asking.read_topic_operations([self.config_topic], self.timeout_s)[
                self.config_topic
            ]
        return _is_authorized(held, "WRITE")

    def _find_denied_groups(self, names: Sequence[str]) -> Sequence[str]:
        with contextlib.closing(self.connect_as_admin()) as asking:
            held = asking.read_group_operations(names, self.timeout_s)
        return [name for name in names if _is_authorized(held[name], "READ") is False]


def explain_unwritable_export(path: str) -> str:
    """Explain why the export file cannot be created; return "" if it can, or if no export is
    requested."""
    if not path:
        return ""
    if os.path.lexists(path):
        return f"{path} already exists: move it away, or use another file"
    folder = os.path.dirname(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"cannot create {path}: {folder} is not a writable directory"
    return ""


def explain_missing_hooks(hooks: HookCommands, order: Collection[FailoverStep]) -> dict[str, str]:
    """Explain which hook commands do not exist, by the step that runs the command."""
    return {
        step.value: f"the command {hooks[step.value].command[0]} does not exist"
        for step in order
        if step.value in hooks and shutil.which(hooks[step.value].command[0]) is None
    }


def _is_authorized(held: AuthorizedOperations, operation: str) -> bool | None:
    """Return True if the operation is authorized; None if the brokers do not report authorized
    operations."""
    if held.operations is None:
        return None
    return bool(held.operations & {operation, "ALL"})
