"""How much is served of ten thousand partitions; how long that takes the benchmark measures."""

from __future__ import annotations

import pytest

from connect_runtime.metrics_server import prometheus_text
from connect_runtime.system.system_clock import SystemClock
from mm2.metrics import collector, metric_declarations
from mm2.metrics.metrics_exposition import JmxMetrics, NodeMetrics
from tests.bench import made_node
from tests.bench.made_node import Node

PARTITIONS = 10_000
OF_A_TOPIC = 11
"""Series at most of each topic, where all is well."""


@pytest.fixture(scope="module")
def node() -> Node:
    return Node(PARTITIONS)


def test_by_topic_there_are_a_few_series_for_each(node):
    text = prometheus_text.render_metric_families(node.metrics.registry.all_families).decode()
    assert text.count("\n") < made_node.TOPICS * OF_A_TOPIC + 200
    assert len(text) < 200_000


def test_by_partition_there_are_two_series_more_for_each(node):
    families = collector.collect_partition_metrics([node.status], SystemClock().wall_ms())
    assert [each.metric for each in families] == [*metric_declarations.PARTITION_METRICS]
    assert sum(len(each.series) for each in families) == 2 * PARTITIONS
    assert len(prometheus_text.render_metric_families(families)) < 200 * 2 * PARTITIONS


def test_javas_names_have_two_dozen_for_each_and_only_there(node):
    java = JmxMetrics(node.families, lambda: node.metrics.statuses)
    counted = sum(len(each.series) for each in java.all_families)
    assert counted == (2 * 12 + 2) * PARTITIONS
    ours = NodeMetrics(node.metrics.registry, dict).all_families
    assert not [each for each in ours if "kafka" in each.metric.name]
