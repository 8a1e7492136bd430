from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from connect_runtime.api import context, records
from tests.fakes import plugin_contexts


def test_a_plain_report_says_running_and_nothing_more():
    progress: Any = context.PipelineProgress()
    assert progress.state is context.PipelineState.RUNNING
    assert (progress.reason, progress.records_total, progress.offsets) == ("", 0, ())
    with pytest.raises(dataclasses.FrozenInstanceError):
        progress.reason = "x"


def test_one_fake_serves_every_kind_of_plugin():
    """The assignments are checked by mypy: each protocol is one that a fake can meet."""
    fake = plugin_contexts.Context()
    connector: context.SourceConnectorContext = fake
    source: context.SourceTaskContext = fake
    pipeline: context.PipelineTaskContext = fake
    connector.request_task_reconfiguration()
    connector.raise_error(ValueError("x"))
    pipeline.report(context.PipelineProgress(records_total=3))
    assert source.wait(2.0) is False
    assert (fake.reconfigurations, fake.waited_s) == (1, 2.0)
    assert [type(each) for each in fake.errors] == [ValueError]
    assert fake.reports[0].records_total == 3


def test_offsets_are_answered_in_order_of_the_question():
    record = records.SourceRecord(
        topic="t", source_partition={"file": "a"}, source_offset={"position": 1}
    )
    later = dataclasses.replace(record, source_offset={"position": 2})
    reader: context.OffsetReader = plugin_contexts.stored_by([record, later])
    assert reader.offsets([{"file": "b"}, {"file": "a"}]) == [None, {"position": 2}]
