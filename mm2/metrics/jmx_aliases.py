"""Alternative names of MirrorMaker 2's JMX metrics in dashboards and alerts.

Several exporters convert Java's MBeans to Prometheus metrics, each with a different naming scheme.
The primary names are those of Strimzi's rules for the JMX exporter. The other names in use are:

    kafka_connect_mirror_source_connector_record_count         Redpanda, AWS, many blogs
    kafka_connect_connect_worker_metrics_task_count            Strimzi's metrics reporter
    kafka_connect_worker_metrics_task_count                    the group's name without connect-
    kafka_consumer_fetch_manager_records_lag                   MM2's lag, computed from the lag
    kafka_consumer_consumer_fetch_manager_metrics_records_lag  of its consumer
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from connect_runtime.base.metrics import Metric, MetricFamily, MetricKind
from connect_runtime.worker import connect_metrics_registry
from mm2.connectors.status_registry import FlowStatus

_CONNECTOR_PREFIXES = {
    "kafka_connect_mirror_mirrorsourceconnector_": "kafka_connect_mirror_source_connector_",
    "kafka_connect_mirror_mirrorcheckpointconnector_": "kafka_connect_mirror_checkpoint_connector_",
}
_PARTITION_LABELS = ("topic", "partition")
CONSUMER_LAG = Metric(
    name="kafka_consumer_fetch_manager_records_lag",
    kind=MetricKind.GAUGE,
    help=(
        "Lag of the flow's task in records, under the name of MM2's consumer lag: source last "
        "stable offset minus next offset to replicate."
    ),
    labels=("clientid", *_PARTITION_LABELS),
)
REPORTER_CONSUMER_LAG = Metric(
    name="kafka_consumer_consumer_fetch_manager_metrics_records_lag",
    kind=MetricKind.GAUGE,
    help=CONSUMER_LAG.help,
    labels=("client_id", *_PARTITION_LABELS),
)


def make_alias_families(families: Iterable[MetricFamily]) -> Iterator[MetricFamily]:
    """Yield a copy of each family under each of its alternative names."""
    for family in families:
        for name in _find_aliases(family.metric.name):
            metric = dataclasses.replace(family.metric, name=name)
            yield MetricFamily(metric=metric, series=family.series)


def make_consumer_lag_families(statuses: Iterable[FlowStatus]) -> tuple[MetricFamily, ...]:
    """Create lag metrics with the names and client ids that MM2's consumers have. The JMX exporter
    puts the client ids in quotes; Strimzi's metrics reporter does not."""
    quoted: dict[tuple[str, ...], float] = {}
    plain: dict[tuple[str, ...], float] = {}
    for status in statuses:
        for each in status.partitions:
            behind = each.lag_records
            if behind is not None and each.task >= 0:
                client = f"{status.flow}|MirrorSourceConnector-{each.task}|replication-consumer"
                place = (each.partition.topic, str(each.partition.partition))
                quoted[(f'"{client}"', *place)] = plain[(client, *place)] = behind
    return (
        MetricFamily(metric=CONSUMER_LAG, series=quoted),
        MetricFamily(metric=REPORTER_CONSUMER_LAG, series=plain),
    )


def _find_aliases(name: str) -> tuple[str, ...]:
    for ours, other in _CONNECTOR_PREFIXES.items():
        if name.startswith(ours):
            return (other + name.removeprefix(ours),)
    return _WORKER_ALIASES.get(name, ())


def _make_worker_aliases() -> dict[str, tuple[str, ...]]:
    """Map the name of each worker metric to its alternative names."""
    found = {}
    for group in connect_metrics_registry.ALL_GROUPS:
        for attribute, metric in connect_metrics_registry.declare_metrics(group).items():
            spelled = [group.name, group.name.removeprefix("connect-")]
            others = (f"kafka_connect_{each}_{attribute}".replace("-", "_") for each in spelled)
            found[metric.name] = tuple(
                dict.fromkeys(each for each in others if each != metric.name)
            )
    return found


_WORKER_ALIASES = _make_worker_aliases()
