from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.formats import offset_map_records

OFFSETS = st.integers(0, 2**62)
DELTAS = st.integers(-(2**61), 2**61)
RUNS = st.lists(st.tuples(OFFSETS, DELTAS), max_size=6)


@given(RUNS, st.integers(0, 6))
def test_runs_come_back_however_they_were_appended(runs, cut):
    out = bytearray(b"head")
    offset_map_records.append_offset_runs(out, runs[:cut], previous=None)
    offset_map_records.append_offset_runs(
        out, runs[cut:], previous=runs[:cut][-1] if runs[:cut] else None
    )
    assert offset_map_records.read_offset_runs(bytes(out), 4, count=len(runs)) == (
        runs,
        len(out),
    )


def test_neighbours_cost_little():
    out = bytearray()
    offset_map_records.append_offset_runs(out, [(1_000_000, 5), (1_000_010, 4)], previous=None)
    assert len(out) == 6


def test_a_segment_that_ends_too_early_is_none():
    out = bytearray()
    offset_map_records.append_offset_runs(out, [(100, 5)], previous=None)
    with pytest.raises((IndexError, ValueError)):
        offset_map_records.read_offset_runs(bytes(out), 0, count=2)
