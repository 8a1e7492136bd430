from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from connect_runtime.api.plugin_context import (
    OffsetReader,
    PipelineProgress,
    PipelineState,
    PipelineTaskContext,
    SourceConnectorContext,
    SourceTaskContext,
)
from connect_runtime.api.records import SourceRecord
from tests.fakes import plugin_contexts
from tests.fakes.plugin_contexts import Context


def test_a_plain_report_says_running_and_nothing_more():
    progress: Any = PipelineProgress()
    assert progress.state is PipelineState.RUNNING
    assert (progress.reason, progress.records_total, progress.offsets) == ("", 0, ())
    with pytest.raises(dataclasses.FrozenInstanceError):
        progress.reason = "x"


def test_one_fake_serves_every_kind_of_plugin():
    """The assignments are checked by mypy: each protocol is one that a fake can meet."""
    fake = Context()
    connector: SourceConnectorContext = fake
    source: SourceTaskContext = fake
    pipeline: PipelineTaskContext = fake
    connector.request_task_reconfiguration()
    connector.raise_error(ValueError("x"))
    pipeline.report(PipelineProgress(records_total=3))
    assert source.wait(2.0) is False
    assert (fake.reconfigurations, fake.waited_s) == (1, 2.0)
    assert [type(each) for each in fake.errors] == [ValueError]
    assert fake.reports[0].records_total == 3


def test_offsets_are_answered_in_order_of_the_question():
    record = SourceRecord(topic="t", source_partition={"file": "a"}, source_offset={"position": 1})
    later = dataclasses.replace(record, source_offset={"position": 2})
    reader: OffsetReader = plugin_contexts.stored_by([record, later])
    assert reader.offsets([{"file": "b"}, {"file": "a"}]) == [None, {"position": 2}]
