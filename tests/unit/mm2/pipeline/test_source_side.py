from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect_runtime.wire.codec import fetch
from mm2.pipeline import client_options, source_side
from tests.fakes import copying

BUDGET_BYTES = 1 << 20


def sides(lent_bytes):
    """A source whose responses' buffers take so much, and a partition that reads from it."""
    world = copying.begun()
    side = source_side.SourceSide(
        cast(Any, SimpleNamespace(lent_bytes=lent_bytes)),
        held=world.budget,
        carry=lambda copy, found: None,
        arrived=lambda copy: None,
        now=cast(Any, SimpleNamespace(now_s=lambda: 1000.0)),
        throttle_bytes_s=0,
        limits=client_options.fetch_limits({}),
        can_send=lambda copy: True,
    )
    return world, side


@pytest.mark.parametrize(
    ("queued", "lent_bytes", "moves"),
    [
        (True, 2 * BUDGET_BYTES, True),
        (True, BUDGET_BYTES, False),
        (False, 2 * BUDGET_BYTES, False),
    ],
    ids=["it waits behind others", "there is room", "it is sent at once"],
)
def test_what_would_keep_a_crowded_buffer_moves_out_of_it(queued, lent_bytes, moves):
    world, side = sides(lent_bytes)
    if queued:
        world.offer(copying.batch(0))
    response = bytearray(copying.batch(1))
    found = fetch.FetchedPartition(
        topic="orders",
        topic_id=bytes(16),
        partition=4,
        error_code=0,
        high_watermark=2,
        last_stable_offset=2,
        log_start_offset=0,
        aborted=[],
        preferred_read_replica=-1,
        diverging_end_offset=-1,
        current_leader=None,
        records=memoryview(response),
    )
    records = side._records(world.copy, found).records
    assert bytes(records) == bytes(response)
    assert (records.obj is not response) == moves
