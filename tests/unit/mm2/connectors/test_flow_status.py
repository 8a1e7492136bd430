"""What follows from a flow's snapshot."""

from __future__ import annotations

import pytest

from mm2.connectors import flow_status
from tests.support import statuses


@pytest.mark.parametrize(
    ("flow", "empty"),
    [
        (statuses.flow(), True),
        (statuses.flow(tasks=[]), True),
        (statuses.flow(statuses.partition(phase="stopped", task=-1)), False),
        (statuses.flow(elsewhere=1), False),
        (statuses.flow(state=flow_status.FlowState.PLANNING), False),
    ],
)
def test_a_flow_is_empty_where_it_is_known_to_have_nothing_to_copy(flow, empty):
    assert flow.empty is empty
