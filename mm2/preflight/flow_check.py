"""Checks one flow whose clusters respond: ACLs, topics, broker settings and delivery guarantees."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from connect_runtime.kafka.client_errors import (
    AuthenticationError,
    NotAuthorizedError,
    UnreachableError,
    UnsupportedByBrokersError,
)
from mm2.clusters import flow_kafka_clients
from mm2.clusters.flow_cluster_pair import FlowPair
from mm2.config.effective_config import EffectiveFlowConfig
from mm2.config.flow_connector_configs import FlowPlan
from mm2.config.mm2_settings import Mm2Settings
from mm2.offsets import group_selection
from mm2.preflight import (
    broker_limits,
    client_authentication,
    delivery_guarantee_probe,
    internal_topic_check,
    required_acls,
)
from mm2.preflight.broker_limits import BrokerConfigs, TargetBrokers
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity
from mm2.preflight.flow_topics_check import TopicCheck, TopicCheckDependencies
from mm2.preflight.internal_topic_check import (
    FlowConnectorConfigs,
    InternalTopicAccess,
    ReplicationFactorCauses,
)
from mm2.preflight.required_acls import ClientResource, FlowClient, FlowResourceUsage, ResourceKind
from mm2.topics.flow_config import Flow

_LOG = logging.getLogger(__name__)
_AREAS_OF_EVERY_FLOW = frozenset({CheckArea.RIGHTS, CheckArea.TOPICS})
_AREAS_OF_MIRRORING = frozenset({CheckArea.PROTOCOL, CheckArea.SETTINGS})
_MAX_GROUPS_CHECKED = 20
_FACTOR_REFUSED = "INVALID_REPLICATION_FACTOR"


def select_areas(plan: FlowPlan) -> frozenset[CheckArea]:
    """Return the areas to check. A flow that only emits heartbeats does not replicate topics."""
    return (
        _AREAS_OF_EVERY_FLOW | _AREAS_OF_MIRRORING
        if plan.replicates_topics
        else _AREAS_OF_EVERY_FLOW
    )


class FlowCheck:
    """Checks one flow. Not thread-safe. `timeout_s` limits each request to a cluster."""

    def __init__(
        self,
        settings: Mm2Settings,
        flow: Flow,
        plan: FlowPlan,
        *,
        effective: EffectiveFlowConfig,
        clock: Clock,
        random: Random,
        timeout_s: float,
    ) -> None:
        self._causes = ReplicationFactorCauses(effective, file=settings.file, target=flow.target)
        self._settings = settings
        self._flow = flow
        self._plan = plan
        self._clock = clock
        self._random = random
        self._timeout_s = timeout_s
        self._operator = flow_kafka_clients.build_operator_commands(settings, flow)
        self._accesses = client_authentication.build_cluster_access_by_client(settings, flow, plan)
        self._found: list[CheckFinding] = []
        self._configs: BrokerConfigs | None = None

    def run(self, brokers: Mapping[str, int]) -> Sequence[CheckFinding]:
        """Run all checks. `brokers` is the number of brokers by cluster alias."""
        config = internal_topic_check.parse_connector_configs(self._settings, self._plan)
        own = internal_topic_check.list_internal_topics(self._plan, config)
        with FlowPair(self._settings, self._flow, purpose="check", clock=self._clock) as both:
            topics = TopicCheck(
                TopicCheckDependencies(
                    both=both,
                    accesses=self._accesses,
                    operator=self._operator,
                    brokers=brokers,
                    causes=self._causes,
                    clock=self._clock,
                    timeout_s=self._timeout_s,
                )
            )
            if self._plan.replicates_topics:
                self._run_check(
                    CheckArea.SETTINGS, lambda: self._check_broker_limits(both, brokers)
                )
                kept_ms = broker_limits.get_default_retention_ms(self._configs)
                topics.default_factor = broker_limits.get_default_replication_factor(self._configs)
                self._run_check(CheckArea.TOPICS, lambda: topics.check_mirrors(kept_ms))
            self._run_check(CheckArea.TOPICS, lambda: topics.check_internal_topics(own))
            self._run_check(CheckArea.SETTINGS, topics.check_replication_factors)
            self._run_check(
                CheckArea.RIGHTS, lambda: self._check_acls(both, config, own, topics=topics)
            )
        if self._plan.replicates_topics:
            self._run_check(CheckArea.PROTOCOL, self._check_delivery)
        return self._found

    def _run_check(self, word: CheckArea, look: Callable[[], Iterable[CheckFinding]]) -> None:
        """Run one check. If it fails, report the failure as a finding and continue with the other
        checks."""
        try:
            self._found.extend(look())
        except ConnectError as error:
            self._found.append(
                CheckFinding(
                    subject=self._flow.name,
                    area=_find_check_area_of_error(error, word),
                    severity=CheckSeverity.FAILED,
                    code="look-refused" if isinstance(error, NotAuthorizedError) else "look-failed",
                    text=str(error),
                    effect="this check is incomplete: some problems of the flow may not be listed",
                    fix="fix the cause named in the message, then check again",
                )
            )

    def _check_broker_limits(
        self, both: FlowPair, brokers: Mapping[str, int]
    ) -> Iterator[CheckFinding]:
        flow, admin = self._flow, both.target.admin
        source_id = both.source.admin.read_cluster_id(self._timeout_s)
        target_id = admin.read_cluster_id(self._timeout_s)
        yield from broker_limits.check_clusters_differ(
            flow.name, source_id, target_id, renames=flow.policy.renames_topics
        )
        self._configs = admin.read_broker_configs(broker_limits.BROKER_SETTINGS, self._timeout_s)
        target = TargetBrokers(
            alias=flow.target,
            brokers=brokers[flow.target],
            configs=self._configs,
            topics=admin.list_topics(self._timeout_s),
            factor=flow.replication_factor,
            session_ms=round(self._plan.worker.membership.session_timeout_s * 1000),
        )
        yield from broker_limits.check_target_brokers(flow.name, target)

    def _check_acls(
        self,
        both: FlowPair,
        config: FlowConnectorConfigs,
        own: Sequence[InternalTopicAccess],
        *,
        topics: TopicCheck,
    ) -> Iterator[CheckFinding]:
        flow, mirrors, checkpoint = self._flow, self._plan.replicates_topics, config.checkpoint
        groups = self._list_groups(both, config) if mirrors else None
        syncs = checkpoint is not None and checkpoint.sync_groups_interval_s is not None
        wanted = FlowResourceUsage(
            topics=topics.mirrored,
            mirrors=tuple(map(flow.format_remote_topic, topics.mirrored)),
            internal_topics=tuple(each.required_acls for each in own if each.is_written),
            worker_group=self._plan.worker.membership.group_id,
            reverse_flow_topics=internal_topic_check.list_reverse_flow_topics(flow)
            if mirrors
            else (),
            has_visible_groups=None if groups is None else bool(groups),
            synced_groups=(groups or ())[:_MAX_GROUPS_CHECKED] if syncs else (),
            sync_acls=mirrors and config.source.sync_acls_interval_s is not None,
            syncs_configs=flow.syncs_topic_configs,
            reads_brokers=mirrors,
        )
        needed = required_acls.list_required_acls(wanted)
        held = client_authentication.fetch_authorized_operations(
            self._accesses, needed, clock=self._clock, timeout_s=self._timeout_s
        )
        cluster = ClientResource(client=FlowClient.TARGET_ADMIN, kind=ResourceKind.CLUSTER)
        tried = {
            **topics.allowed_operations,
            (cluster, "DESCRIBE_CONFIGS"): self._configs is not None,
        }
        yield from required_acls.find_missing_acls(
            flow.name,
            needed,
            held,
            tried=tried,
            operators=client_authentication.create_cluster_commands(self._accesses),
        )

    def _list_groups(self, both: FlowPair, config: FlowConnectorConfigs) -> tuple[str, ...] | None:
        """List the source groups for which checkpoints are written. Returns None if checkpoints are
        disabled."""
        checkpoint = config.checkpoint
        if checkpoint is None:
            return None
        listed = both.source.groups.list_groups(self._timeout_s)
        filtered = group_selection.filter_groups(
            checkpoint.flow.groups, (each.group for each in listed)
        )
        for name, why in filtered.unmatched.items():
            _LOG.warning("group %.80s is skipped: %s", name, why)
        return filtered.accepted

    def _check_delivery(self) -> Iterator[CheckFinding]:
        found = delivery_guarantee_probe.probe_flow(
            self._settings, self._flow, clock=self._clock, random=self._random
        )
        too_many = any(each.code == "replication-factor" for each in self._found)
        for each in delivery_guarantee_probe.check_delivery_guarantee(found, self._operator.target):
            if not (too_many and _FACTOR_REFUSED in each.text):  # already reported with its cause
                yield each


def _find_check_area_of_error(error: ConnectError, word: CheckArea) -> CheckArea:
    """Return the check area to which an error belongs, or `word` if the error does not indicate an
    area."""
    match error:
        case NotAuthorizedError():
            return CheckArea.RIGHTS
        case UnsupportedByBrokersError():
            return CheckArea.PROTOCOL
        case AuthenticationError():
            return CheckArea.AUTH
        case UnreachableError():
            return CheckArea.NETWORK
        case _:
            return word
