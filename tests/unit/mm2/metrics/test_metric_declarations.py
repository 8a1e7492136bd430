"""The set of metrics: names and labels that dashboards and alerts rely on."""

from __future__ import annotations

from connect_runtime.base.metrics import Metric
from mm2.metrics import metric_declarations

EVERY = (*metric_declarations.ALL_METRICS, *metric_declarations.PARTITION_METRICS)


def test_each_is_declared_once_and_is_ours():
    names = [each.name for each in EVERY]
    assert len(set(names)) == len(names)
    assert all(name.startswith("mm2_") for name in names)


def test_all_declarations_are_in_the_set():
    declared = {id(each) for each in vars(metric_declarations).values() if isinstance(each, Metric)}
    assert declared == set(map(id, EVERY))


def test_a_flows_figures_name_the_flow():
    of_no_flow = {"mm2_build_info", "mm2_engine_ready", "mm2_spark_slots"}
    assert {each.name for each in EVERY if "flow" not in each.labels} == of_no_flow


def test_only_those_of_partitions_have_a_series_for_each():
    assert [each for each in EVERY if "partition" in each.labels] == [
        *metric_declarations.PARTITION_METRICS
    ]


def test_every_explanation_is_a_sentence():
    for each in EVERY:
        assert each.help[0].isupper() or each.help[0].isdigit(), each.name
        assert each.help.endswith("."), each.name
        assert "  " not in each.help, each.name


def test_latencies_are_in_seconds():
    bounds = metric_declarations.REPLICATION_LATENCY.bounds
    assert (bounds[0], bounds[-1], len(bounds)) == (0.005, 300.0, 14)
