"""Checks the topics of a flow on both clusters: source topics, mirror topics and internal topics.

Missing topics are created with `validate_only`, so that the brokers report whether they could be
created.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicExistsError,
    TopicMissingError,
)
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.topic_requests import NewTopic
from mm2.clusters.flow_cluster_pair import FlowPair
from mm2.connectors import mirror_topic_writer
from mm2.connectors.mirror_topic_writer import MirrorTopicWriter
from mm2.kafka.kafka_client_interfaces import Admin, PerTopicResult, TopicDescription
from mm2.kafka.topic_and_config_admin import KafkaAdmin
from mm2.preflight import (
    client_authentication,
    internal_topic_check,
    mirror_topic_check,
    replication_factor_check,
)
from mm2.preflight.check_report import CheckFinding
from mm2.preflight.internal_topic_check import (
    ExpectedInternalTopic,
    InternalTopicAccess,
    ObservedInternalTopic,
    ReplicationFactorCauses,
)
from mm2.preflight.mirror_topic_check import ObservedMirrors
from mm2.preflight.replication_factor_check import MissingTopic
from mm2.preflight.required_acls import ClientResource, FlowClient, ResourceKind
from mm2.suggested_commands import OperatorCommands
from mm2.topics import task_assignment, topic_selection

_CLEANUP_POLICY_KEY = "cleanup.policy"
_REQUESTS_TO_PLAN = 6
"""Number of consecutive requests that are needed to plan mirror topics."""
_COMPACTED_CONFIG = {_CLEANUP_POLICY_KEY: "compact"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCheckDependencies:
    """Connections, commands and cluster properties that a `TopicCheck` needs."""

    both: FlowPair
    accesses: Mapping[FlowClient, KafkaClusterAccess]
    operator: OperatorCommands
    brokers: Mapping[str, int]
    """Number of brokers by cluster alias."""
    causes: ReplicationFactorCauses
    """Settings that determine the flow's replication factors."""
    clock: Clock
    timeout_s: float


class TopicCheck:
    """Checks the topics of one flow. Not thread-safe."""

    def __init__(self, around: TopicCheckDependencies) -> None:
        self._deps = around
        self._flow = around.both.flow
        self.mirrored: tuple[str, ...] = ()
        """Source topics that are visible to the flow and that it replicates."""
        self.allowed_operations: dict[tuple[ClientResource, str], bool] = {}
        """Results of attempts to create missing topics, by resource and operation: True if the
        operation was allowed."""
        self.default_factor: int | None = None
        """Default replication factor of the target's brokers; None if unknown."""
        self._too_many: list[MissingTopic] = []

    def check_mirrors(self, default_retention_ms: int | None) -> Iterator[CheckFinding]:
        """Check mirror topics. Raises `RetriableError` or `FatalError` if a cluster does not
        respond."""
        around, flow = self._deps, self._flow
        source, target = around.both.source.admin, around.both.target.admin
        listed = source.list_topics(around.timeout_s)
        wanted = frozenset(
            each for each in listed if topic_selection.should_replicate_topic(flow, each)
        )
        clashes = task_assignment.find_mirror_name_conflicts(wanted, flow.format_remote_topic)
        self.mirrored = tuple(sorted(wanted.difference(*clashes.values())))
        looks = MirrorTopicWriter(
            flow,
            source=source,
            target=target,
            clock=around.clock,
            pause=lambda _: True,
            stopped=lambda: False,
            operator=around.operator,
        )
        longest_s = _REQUESTS_TO_PLAN * around.timeout_s
        end = Deadline.after(longest_s, now_s=around.clock.now_s())
        seen = looks.preview_changes(self.mirrored, end)
        self._fits_broker_count(
            flow.target,
            "",
            flow.replication_factor,
            internal_topic_check.REPLICATION_FACTOR_KEY,
            internal=False,
        )
        fitting = [
            each
            for each in mirror_topic_writer.select_topics_to_create(seen.plan)
            if self._fits_broker_count(
                flow.target,
                each.name,
                each.replication_factor,
                internal_topic_check.REPLICATION_FACTOR_KEY,
                internal=False,
            )
        ]
        creating = self._try_to_create_topics(target, FlowClient.TARGET_ADMIN, fitting)
        yield from mirror_topic_check.check_mirror_topics(
            ObservedMirrors(
                flow=flow,
                source=seen.source.succeeded,
                mirrors=seen.existing.succeeded,
                planned=seen.plan,
                leaderless={
                    **_find_leaderless_partitions(
                        source.describe_topics(self.mirrored, around.timeout_s)
                    ),
                    **_find_leaderless_partitions(
                        target.describe_topics(seen.existing.succeeded, around.timeout_s)
                    ),
                },
                undescribed=_describe_failures({**seen.source.failed, **seen.existing.failed}),
                refused=_describe_failures(creating.failed),
                name_conflicts=clashes,
                reserved={
                    name: topic_selection.explain_mismatch(flow, name)
                    for name in listed
                    if topic_selection.has_reserved_mirror_name(flow, name)
                },
                default_retention_ms=default_retention_ms,
            ),
            around.operator,
        )

    def check_internal_topics(self, own: Sequence[InternalTopicAccess]) -> Iterator[CheckFinding]:
        """Check internal topics. Raises `RetriableError` or `FatalError` if a cluster does not
        respond."""
        for maker in dict.fromkeys(each.creator for each in own):
            wanted = {each.expected.name: each.expected for each in own if each.creator is maker}
            with self._open_admin_client(maker) as asked:
                yield from self._check_topics_of_client(maker, asked, wanted)

    def _check_topics_of_client(
        self,
        maker: FlowClient,
        asked: Admin,
        wanted: Mapping[str, ExpectedInternalTopic],
    ) -> Iterator[CheckFinding]:
        around, flow = self._deps, self._flow
        tool = around.operator.source if maker.connects_to_source else around.operator.target
        alias = flow.source if maker.connects_to_source else flow.target
        described = asked.describe_topics(list(wanted), around.timeout_s)
        configs = asked.read_topic_configs(list(described.succeeded), around.timeout_s).succeeded
        for name, topic in sorted(described.succeeded.items()):
            entry = configs.get(name, {}).get(_CLEANUP_POLICY_KEY)
            seen = ObservedInternalTopic(
                partitions=topic.partition_count,
                cleanup_policy=None if entry is None else entry.value,
            )
            yield from internal_topic_check.check_internal_topic(
                flow.name, wanted[name], seen, tool=tool
            )
        missing = {
            name: wanted[name]
            for name, error in described.failed.items()
            if isinstance(error, (TopicMissingError, NotAuthorizedError))
        }
        fitting = [
            each
            for each in missing.values()
            if self._fits_broker_count(alias, each.name, each.replication_factor, each.factor_key)
        ]
        creating = self._try_to_create_topics(asked, maker, list(map(_build_new_topic, fitting)))
        yield from internal_topic_check.report_refused_topics(
            flow.name, _describe_failures(creating.failed)
        )

    def check_replication_factors(self) -> Iterator[CheckFinding]:
        """Report the topics whose replication factor exceeds the number of brokers. `check_mirrors`
        and `check_internal_topics` collect these topics and must run first."""
        yield from replication_factor_check.check_replication_factors(
            self._flow.name, self._too_many, self._deps.brokers
        )

    def _fits_broker_count(
        self, alias: str, topic: str, factor: int | None, key: str, *, internal: bool = True
    ) -> bool:
        """Return True if the cluster has enough brokers for a missing topic. Otherwise add the
        topic to the topics that `check_replication_factors` reports.

        If `factor` is None or below 1, the brokers' default is used.
        """
        cause = None
        if factor is None or factor < 1:
            factor = (self.default_factor if alias == self._flow.target else None) or 1
            cause = replication_factor_check.build_broker_default_cause(alias)
        if factor <= self._deps.brokers[alias]:
            return True
        wanted = MissingTopic(
            topic=topic,
            cluster=alias,
            factor=factor,
            cause=cause or self._deps.causes.find_cause(key),
            is_internal=internal,
        )
        self._too_many.append(wanted)
        return False

    def _try_to_create_topics(
        self, asked: Admin, maker: FlowClient, topics: Sequence[NewTopic]
    ) -> PerTopicResult[None]:
        answer = asked.create_topics(topics, self._deps.timeout_s, validate_only=True)
        for name in answer.succeeded:
            self._record_creation_attempt(maker, name, allowed=True)
        for name, error in answer.failed.items():
            self._record_creation_attempt(
                maker, name, allowed=not isinstance(error, NotAuthorizedError)
            )
        return answer

    def _record_creation_attempt(self, maker: FlowClient, name: str, *, allowed: bool) -> None:
        resource = ClientResource(client=maker, kind=ResourceKind.TOPIC, name=name)
        self.allowed_operations[resource, "CREATE"] = allowed

    @contextlib.contextmanager
    def _open_admin_client(self, maker: FlowClient) -> Iterator[Admin]:
        around = self._deps
        if maker is FlowClient.SOURCE_ADMIN:
            yield around.both.source.admin
        elif maker is FlowClient.TARGET_ADMIN:
            yield around.both.target.admin
        else:
            made = KafkaAdmin(
                around.accesses[maker],
                client_id=client_authentication.CHECK_CLIENT_ID,
                clock=around.clock,
            )
            with contextlib.closing(made):
                yield made


def _build_new_topic(topic: ExpectedInternalTopic) -> NewTopic:
    factor = topic.replication_factor
    return NewTopic(
        name=topic.name,
        partitions=topic.partitions or 1,
        replication_factor=None if factor < 0 else factor,
        configs=_COMPACTED_CONFIG,
    )


def _find_leaderless_partitions(
    described: PerTopicResult[TopicDescription],
) -> dict[str, list[int]]:
    found = {
        name: [number for number, leader in enumerate(topic.leaders) if leader is None]
        for name, topic in described.succeeded.items()
    }
    return {name: numbers for name, numbers in found.items() if numbers}


def _describe_failures(failed: Mapping[str, ConnectError]) -> dict[str, str]:
    """Return the errors of topics that could not be created, by topic. Omits topics that already
    exist, and missing ACLs, which are reported separately."""
    known = (NotAuthorizedError, TopicExistsError)
    return {name: str(error) for name, error in failed.items() if not isinstance(error, known)}
