"""Names that dashboards made for MirrorMaker 2 ask for."""

from __future__ import annotations

from connect_runtime.base.metrics import Metric, MetricFamily, MetricKind
from mm2.connectors import connector_metrics
from mm2.metrics import jmx_aliases
from tests.support import statuses


def names_of(*names: str) -> set[str]:
    families = [
        MetricFamily(
            metric=Metric(
                name=name,
                kind=MetricKind.COUNTER if name.endswith("_total") else MetricKind.GAUGE,
                help="Some.",
                labels=("a",),
            ),
            series={("x",): 5.0},
        )
        for name in names
    ]
    found = list(jmx_aliases.make_alias_families(families))
    assert all(each.series == {("x",): 5.0} and each.metric.labels == ("a",) for each in found)
    return {each.metric.name for each in found}


def test_every_attribute_of_mirrors_has_the_other_spelling():
    for group, spelled in (
        (connector_metrics.SOURCE_METRICS, "source_connector"),
        (connector_metrics.CHECKPOINT_METRICS, "checkpoint_connector"),
    ):
        for metric in connector_metrics.declare_jmx_metrics(
            group, connector_metrics.LEGACY_FORMAT
        ).values():
            attribute = metric.name.removeprefix(f"kafka_connect_mirror_{group.name.lower()}_")
            assert names_of(metric.name) == {f"kafka_connect_mirror_{spelled}_{attribute}"}


def test_workers_metrics_have_those_of_the_reporter_and_of_runbooks():
    assert names_of("kafka_connect_worker_task_count") == {
        "kafka_connect_connect_worker_metrics_task_count",
        "kafka_connect_worker_metrics_task_count",
    }
    assert names_of("kafka_connect_worker_rebalance_completed_rebalances_total") == {
        "kafka_connect_connect_worker_rebalance_metrics_completed_rebalances_total",
        "kafka_connect_worker_rebalance_metrics_completed_rebalances_total",
    }
    assert names_of("kafka_connect_connector_task_offset_commit_avg_time_ms") == {
        "kafka_connect_connector_task_metrics_offset_commit_avg_time_ms",
    }
    assert "kafka_connect_task_error_metrics_total_errors_logged" in names_of(
        "kafka_connect_task_error_total_errors_logged"
    )


def test_what_java_does_not_have_has_no_other_name():
    assert names_of("kafka_connect_plugins_record_count", "other") == set()


def test_the_lag_of_the_consumer_that_there_would_be():
    flow = statuses.flow(
        statuses.partition("orders", 3, task=1, copied_to=4, source_end=9),
        statuses.partition("unknown", 0, copied_to=-1),
        statuses.partition("given to none", 0, task=-1),
    )
    quoted, plain = jmx_aliases.make_consumer_lag_families([flow])
    client = "east->west|MirrorSourceConnector-1|replication-consumer"
    assert quoted.series == {(f'"{client}"', "orders", "3"): 5}
    assert plain.series == {(client, "orders", "3"): 5}
