"""How much is served of ten thousand partitions; how long that takes the benchmark measures."""

from __future__ import annotations

import pytest

from connect_runtime.adapters.http import metrics_text
from connect_runtime.system import clock
from mm2.app import metrics, node_metrics
from mm2.core import measures
from tests.bench import made_node

PARTITIONS = 10_000
OF_A_TOPIC = 11
"""Series at most of each topic, where all is well."""


@pytest.fixture(scope="module")
def node() -> made_node.Node:
    return made_node.Node(PARTITIONS)


def test_by_topic_there_are_a_few_series_for_each(node):
    text = metrics_text.render(node.metrics.registry.published).decode()
    assert text.count("\n") < made_node.TOPICS * OF_A_TOPIC + 200
    assert len(text) < 200_000


def test_by_partition_there_are_two_series_more_for_each(node):
    families = metrics.by_partition([node.status], clock.SystemClock().wall_ms())
    assert [each.metric for each in families] == [*measures.BY_PARTITION]
    assert sum(len(each.series) for each in families) == 2 * PARTITIONS
    assert len(metrics_text.render(families)) < 200 * 2 * PARTITIONS


def test_javas_names_have_two_dozen_for_each_and_only_there(node):
    java = node_metrics.JavaMetrics(node.families, lambda: node.metrics.statuses)
    counted = sum(len(each.series) for each in java.published)
    assert counted == (2 * 12 + 2) * PARTITIONS
    ours = node_metrics.NodeMetrics(node.metrics.registry, dict).published
    assert not [each for each in ours if "kafka" in each.metric.name]
