"""Names that dashboards made for MirrorMaker 2 ask for."""

from __future__ import annotations

from connect_runtime.base import metrics
from mm2.app import java_aliases
from mm2.core import mirror_metrics
from tests.support import statuses


def names_of(*names: str) -> set[str]:
    families = [
        metrics.Family(
            metric=metrics.Metric(
                name=name,
                kind=metrics.Kind.COUNTER if name.endswith("_total") else metrics.Kind.GAUGE,
                help="Some.",
                labels=("a",),
            ),
            series={("x",): 5.0},
        )
        for name in names
    ]
    found = list(java_aliases.of(families))
    assert all(each.series == {("x",): 5.0} and each.metric.labels == ("a",) for each in found)
    return {each.metric.name for each in found}


def test_every_attribute_of_mirrors_has_the_other_spelling():
    for group, spelled in (
        (mirror_metrics.SOURCE, "source_connector"),
        (mirror_metrics.CHECKPOINT, "checkpoint_connector"),
    ):
        for metric in mirror_metrics.declared(group, mirror_metrics.LEGACY).values():
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
    quoted, plain = java_aliases.lags([flow])
    client = "east->west|MirrorSourceConnector-1|replication-consumer"
    assert quoted.series == {(f'"{client}"', "orders", "3"): 5}
    assert plain.series == {(client, "orders", "3"): 5}
