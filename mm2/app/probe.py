"""`mm2 probe`: asks the clusters of each flow what they can do, and says what follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app import connections
from mm2.app.settings import settings as app_settings
from mm2.cluster import admin
from mm2.connectors.topics import partition_setups
from mm2.core import capabilities, flows
from mm2.pipeline import cluster_probe

TOPIC = "mm2-probe.internal"
"""Stays on the target: deleting it would need one more right, and two probes would meet."""
JSON_VERSION = 1
TIMEOUT_S = 30.0
_EXPIRATIONS = (partition_setups.PRODUCER_EXPIRATION, partition_setups.TRANSACTIONAL_EXPIRATION)
_CONFIGS = {"retention.ms": "3600000", "cleanup.policy": "delete"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was seen of one flow's clusters, and what it will do."""

    flow: flows.Flow
    source: capabilities.Observed
    target: capabilities.Observed
    verdict: capabilities.Verdict

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.flow.name}: {self.verdict}"
        for reason in self.verdict.reasons:
            yield f"  because {reason}"
        for note in self.verdict.notes:
            yield f"  note: {note}"
        yield f"  {self.source.alias} (source) speaks {_spoken(self.source)}"
        yield f"  {self.target.alias} (target) speaks {_spoken(self.target)}"
        for observed in (self.source, self.target):
            if observed.topic_ids is not None:
                yield f"  {observed.alias} has {'' if observed.topic_ids else 'no '}topic ids"
        for check in capabilities.Check:
            answer = self.target.answer(check)
            detail = f" ({answer.detail})" if answer.detail else ""
            yield f"  {answer.outcome.value:>8}: {check.value}{detail}"

    def as_json(self) -> dict[str, Any]:
        """For programs; `JSON_VERSION` says how it reads."""
        return {
            "flow": self.flow.name,
            "delivery": self.verdict.delivery.value,
            "proven": self.verdict.proven,
            "reasons": list(self.verdict.reasons),
            "notes": list(self.verdict.notes),
            "clusters": [
                {"alias": each.alias, "speaks": dict(each.spoken), "topic_ids": each.topic_ids}
                for each in (self.source, self.target)
            ],
            "checks": {
                check.name.lower().replace("_", "-"): {
                    "outcome": self.target.answer(check).outcome.value,
                    "detail": self.target.answer(check).detail,
                }
                for check in capabilities.Check
            },
        }


def probe(
    settings: app_settings.Settings,
    flow: flows.Flow,
    *,
    clock: base_clock.Clock,
    random: Random,
) -> Found:
    """Look at both clusters of a flow; raises `ConnectError` when one does not answer."""
    client_id = f"mm2-{flow.name}-probe"
    clients = settings.clients_of(flow)

    def over(cluster: app_settings.ClusterSettings, alias: str) -> cluster_probe.ClusterProbe:
        reached = connections.wire_settings(cluster, alias, client_id=client_id)
        return cluster_probe.ClusterProbe(alias, reached, clock=clock, random=random)

    source_admin = connections.source_admin(settings, flow, client_id=client_id, clock=clock)
    target_admin = connections.target_admin(settings, flow, client_id=client_id, clock=clock)
    try:
        names = source_admin.list_topics(TIMEOUT_S)
        source = over(clients.consumer, flow.source).source(min(names, default=None))
        refused = _create_topic(target_admin, flow)
        target_probe = over(clients.producer, flow.target)
        prefix = f"mm2-{flow.name}-"  # as all ids of `Flow.transactional_id` begin
        if refused is None:
            target = target_probe.target(TOPIC, transactional_prefix=prefix)
        else:
            target = target_probe.untried(refused)
        told = target_admin.broker_configs(_EXPIRATIONS, TIMEOUT_S)
        target = replace(target, tells_expiration=any((told or {}).values()))
    finally:
        source_admin.close()
        target_admin.close()
    verdict = capabilities.decide(source, target, transactional_prefix=prefix)
    return Found(flow=flow, source=source, target=target, verdict=verdict)


def _create_topic(target: admin.Admin, flow: flows.Flow) -> errors.ConnectError | None:
    """Why there is no topic of our own; None: there is."""
    wanted = admin.NewTopic(
        name=TOPIC,
        partitions=1,
        replication_factor=None if flow.replication_factor == -1 else flow.replication_factor,
        configs=_CONFIGS,
    )
    failure = target.create_topics([wanted], TIMEOUT_S).first_failure()
    return None if isinstance(failure, kafka_errors.TopicExistsError) else failure


def _spoken(observed: capabilities.Observed) -> str:
    return ", ".join(
        f"{name} {'in no version of ours' if version is None else version}"
        for name, version in observed.spoken.items()
    )
