"""Names under which dashboards and alerts made for MirrorMaker 2 look for what we measure.

Java's MBeans come to Prometheus by several exporters, and each spells them otherwise. The names of
Strimzi's rules for the JMX exporter are those of `core/mirror_metrics` and of the worker's metrics;
what is made here beside them are the other spellings in use:

    kafka_connect_mirror_source_connector_record_count         Redpanda, AWS, many blogs
    kafka_connect_connect_worker_metrics_task_count            Strimzi's metrics reporter
    kafka_connect_worker_metrics_task_count                    the group's name without connect-
    kafka_consumer_fetch_manager_records_lag                   how MM2's lag is worked out: by the
    kafka_consumer_consumer_fetch_manager_metrics_records_lag  lag of its consumer
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from connect_runtime.base import metrics
from connect_runtime.core.task import metric_groups, metric_names
from mm2.connectors import flow_status

_MIRROR = {
    "kafka_connect_mirror_mirrorsourceconnector_": "kafka_connect_mirror_source_connector_",
    "kafka_connect_mirror_mirrorcheckpointconnector_": "kafka_connect_mirror_checkpoint_connector_",
}
_PLACE = ("topic", "partition")
LAG = metrics.Metric(
    name="kafka_consumer_fetch_manager_records_lag",
    kind=metrics.Kind.GAUGE,
    help="Source last stable offset minus next offset to copy, as the lag of MM2's consumer.",
    labels=("clientid", *_PLACE),
)
LAG_OF_REPORTER = metrics.Metric(
    name="kafka_consumer_consumer_fetch_manager_metrics_records_lag",
    kind=metrics.Kind.GAUGE,
    help=LAG.help,
    labels=("client_id", *_PLACE),
)


def of(families: Iterable[metrics.Family]) -> Iterator[metrics.Family]:
    """Each of these by its other names."""
    for family in families:
        for name in _names(family.metric.name):
            metric = dataclasses.replace(family.metric, name=name)
            yield metrics.Family(metric=metric, series=family.series)


def lags(statuses: Iterable[flow_status.FlowStatus]) -> tuple[metrics.Family, ...]:
    """By the client ids that MM2 gives its consumers; the JMX exporter keeps their quotes."""
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
        metrics.Family(metric=LAG, series=quoted),
        metrics.Family(metric=LAG_OF_REPORTER, series=plain),
    )


def _names(name: str) -> tuple[str, ...]:
    for ours, other in _MIRROR.items():
        if name.startswith(ours):
            return (other + name.removeprefix(ours),)
    return _OF_WORKERS.get(name, ())


def _of_workers() -> dict[str, tuple[str, ...]]:
    """By the name that a metric of a worker has, its others."""
    found = {}
    for group in metric_names.EVERY:
        for attribute, metric in metric_groups.declared(group).items():
            spelled = [group.name, group.name.removeprefix("connect-")]
            others = (f"kafka_connect_{each}_{attribute}".replace("-", "_") for each in spelled)
            found[metric.name] = tuple(
                dict.fromkeys(each for each in others if each != metric.name)
            )
    return found


_OF_WORKERS = _of_workers()
