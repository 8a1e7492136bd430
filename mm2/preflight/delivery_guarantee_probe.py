"""Implements `mm2 probe`: detects which features a flow's clusters support, and the resulting
delivery guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from connect_runtime.kafka.client_errors import TopicExistsError
from connect_runtime.protocol.topic_requests import NewTopic
from mm2.clusters import flow_kafka_clients
from mm2.config.mm2_settings import ClusterSettings, Mm2Settings
from mm2.connectors import partition_setup_builder
from mm2.copier.cluster_capability_probe import ClusterProbe
from mm2.kafka.kafka_client_interfaces import Admin
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity
from mm2.replication import cluster_capabilities, transactional_ids
from mm2.replication.cluster_capabilities import (
    CapabilityCheck,
    CheckOutcome,
    ClusterCapabilities,
    DeliveryAssessment,
    DeliveryGuarantee,
)
from mm2.suggested_commands import ClusterCommands
from mm2.topics.flow_config import DeliveryMode, Flow

PROBE_TOPIC = "mm2-probe.internal"
"""Internal topic on the target to which `mm2 probe` writes records. The topic is kept after the
probe, because its deletion would need another ACL and could interfere with a concurrent probe."""
PROBE_JSON_VERSION = 1
PROBE_TIMEOUT_S = 30.0
_EXPIRATION_KEYS = (
    partition_setup_builder.PRODUCER_EXPIRATION_CONFIG,
    partition_setup_builder.TRANSACTIONAL_EXPIRATION_CONFIG,
)
_PROBE_TOPIC_CONFIGS = {"retention.ms": "3600000", "cleanup.policy": "delete"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """Capabilities of one flow's clusters, and the resulting delivery guarantee."""

    flow: Flow
    source: ClusterCapabilities
    target: ClusterCapabilities
    verdict: DeliveryAssessment

    def format_lines(self) -> Iterator[str]:
        """Yield the result as lines of text."""
        yield f"{self.flow.name}: {self.verdict}"
        for reason in self.verdict.reasons:
            yield f"  because {reason}"
        for note in self.verdict.notes:
            yield f"  note: {note}"
        yield f"  {self.source.alias} (source) supports {_format_capabilities(self.source)}"
        yield f"  {self.target.alias} (target) supports {_format_capabilities(self.target)}"
        for observed in (self.source, self.target):
            if observed.has_topic_ids is not None:
                yield f"  {observed.alias} has {'' if observed.has_topic_ids else 'no '}topic ids"
        for check in CapabilityCheck:
            answer = self.target.get_check_result(check)
            detail = f" ({answer.detail})" if answer.detail else ""
            yield f"  {answer.outcome.value:>8}: {check.value}{detail}"

    def as_json(self) -> dict[str, Any]:
        """Convert the result to JSON in the format version `PROBE_JSON_VERSION`."""
        return {
            "flow": self.flow.name,
            "delivery": self.verdict.guarantee.value,
            "proven": self.verdict.is_verified,
            "reasons": list(self.verdict.reasons),
            "notes": list(self.verdict.notes),
            "clusters": [
                {
                    "alias": each.alias,
                    "speaks": dict(each.api_versions),
                    "topic_ids": each.has_topic_ids,
                }
                for each in (self.source, self.target)
            ],
            "checks": {
                check.name.lower().replace("_", "-"): {
                    "outcome": self.target.get_check_result(check).outcome.value,
                    "detail": self.target.get_check_result(check).detail,
                }
                for check in CapabilityCheck
            },
        }


def probe_flow(
    settings: Mm2Settings,
    flow: Flow,
    *,
    clock: Clock,
    random: Random,
) -> ProbeResult:
    """Probe both clusters of a flow. Raises `ConnectError` if a cluster does not respond."""
    client_id = f"mm2-{flow.name}-probe"
    clients = settings.get_clients(flow)

    def create_cluster_probe(cluster: ClusterSettings, alias: str) -> ClusterProbe:
        reached = flow_kafka_clients.build_protocol_client_connection_settings(
            cluster, alias, client_id=client_id
        )
        return ClusterProbe(alias, reached, clock=clock, random=random)

    source_admin = flow_kafka_clients.connect_source_admin(
        settings, flow, client_id=client_id, clock=clock
    )
    target_admin = flow_kafka_clients.connect_target_admin(
        settings, flow, client_id=client_id, clock=clock
    )
    try:
        names = source_admin.list_topics(PROBE_TIMEOUT_S)
        source = create_cluster_probe(clients.consumer, flow.source).probe_source(
            min(names, default=None)
        )
        refused = _create_probe_topic(target_admin, flow)
        target_probe = create_cluster_probe(clients.producer, flow.target)
        prefix = transactional_ids.format_transactional_id_prefix(flow.name)
        if refused is None:
            target = target_probe.probe_target(PROBE_TOPIC, transactional_prefix=prefix)
        else:
            target = target_probe.build_untested_capabilities(refused)
        told = target_admin.read_broker_configs(_EXPIRATION_KEYS, PROBE_TIMEOUT_S)
        target = replace(target, reports_producer_expiration=any((told or {}).values()))
    finally:
        source_admin.close()
        target_admin.close()
    verdict = cluster_capabilities.assess_delivery(source, target, transactional_prefix=prefix)
    return ProbeResult(flow=flow, source=source, target=target, verdict=verdict)


def _create_probe_topic(target: Admin, flow: Flow) -> ConnectError | None:
    """Create the probe topic. Returns the error, or None if the topic exists or was created."""
    wanted = NewTopic(
        name=PROBE_TOPIC,
        partitions=1,
        replication_factor=None if flow.replication_factor == -1 else flow.replication_factor,
        configs=_PROBE_TOPIC_CONFIGS,
    )
    failure = target.create_topics([wanted], PROBE_TIMEOUT_S).get_first_failure()
    return None if isinstance(failure, TopicExistsError) else failure


def _format_capabilities(observed: ClusterCapabilities) -> str:
    return ", ".join(
        f"{name} {'in no common version' if version is None else version}"
        for name, version in observed.api_versions.items()
    )


_Delivery = DeliveryGuarantee


def check_delivery_guarantee(found: ProbeResult, target: ClusterCommands) -> Iterator[CheckFinding]:
    """Report each limitation of the delivery guarantee. With `delivery: at-least-once`, weaker
    guarantees are not reported as problems."""
    verdict, flow = found.verdict, found.flow
    wants_less = flow.delivery is DeliveryMode.AT_LEAST_ONCE
    denied = any(
        found.target.get_check_result(check).outcome is CheckOutcome.DENIED
        for check in CapabilityCheck
    )
    for reason in verdict.reasons:
        if verdict.guarantee is _Delivery.NONE:
            yield _build_finding(
                found,
                "protocol",
                reason,
                effect="the flow cannot replicate",
                fix="use newer brokers",
                severity=CheckSeverity.FAILED,
            )
        elif not wants_less:
            yield _build_finding(
                found,
                "at-least-once",
                reason,
                effect="writers cannot be fenced: restarts may duplicate records",
                fix="grant the named operations, or set delivery: at-least-once",
                severity=CheckSeverity.WARNING,
                word=CheckArea.RIGHTS if denied else CheckArea.PROTOCOL,
                command=target.build_allow_transactional_ids_command(
                    transactional_ids.format_transactional_id_prefix(flow.name)
                )
                if denied
                else "",
            )
    for note in verdict.notes:
        yield _build_finding(
            found,
            "delivery-note",
            note,
            effect="the delivery guarantee is not weakened",
            fix="no action needed, unless the note says otherwise",
            severity=CheckSeverity.NOTE,
        )


def _build_finding(
    found: ProbeResult,
    code: str,
    text: str,
    *,
    effect: str,
    fix: str,
    severity: CheckSeverity,
    word: CheckArea = CheckArea.PROTOCOL,
    command: str = "",
) -> CheckFinding:
    return CheckFinding(
        subject=found.flow.name,
        area=word,
        severity=severity,
        code=code,
        text=text,
        effect=effect,
        fix=fix,
        command=command,
    )
