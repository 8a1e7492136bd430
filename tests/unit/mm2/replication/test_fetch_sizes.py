from __future__ import annotations

import pytest

from mm2.replication import fetch_sizes
from mm2.replication.fetch_sizes import AdaptiveFetchSize

MB = 1024 * 1024


@pytest.mark.parametrize(
    ("size", "elapsed_s", "rtt_s", "becomes"),
    [
        (4 * MB, 0.1, 0.05, 8 * MB),
        (3 * MB, 0.1, 0.05, 8 * MB),
        (3 * MB - 1, 0.1, 0.05, 4 * MB),
        (4 * MB, 0.1, 0.021, 8 * MB),
        (4 * MB, 0.1, 0.019, 4 * MB),
        (4 * MB, 0.1, 0.003, 4 * MB),
        (4 * MB, 0.1, 0.002, 2 * MB),
        (MB, 0.1, 0.002, 4 * MB),
        (4 * MB, 0.0, 0.05, 4 * MB),
        (4 * MB, 0.004, 0.002, 4 * MB),
    ],
    ids=[
        "full, half of the time is the line",
        "three quarters are full",
        "less is not",
        "just worth it",
        "just not worth it",
        "nothing to gain, nothing to lose",
        "a short line: smaller costs nothing",
        "not full says nothing",
        "no time passed",
        "a near broker's line is never what takes the time",
    ],
)
def test_sizes_follow_the_round_trips_share(size, elapsed_s, rtt_s, becomes):
    sizes = AdaptiveFetchSize(partition_bytes=4 * MB)
    sizes.adapt_to_response(size, requested_bytes=4 * MB, elapsed_s=elapsed_s, rtt_s=rtt_s)
    assert sizes.partition_bytes == becomes


def answered_full(sizes, *, rtt_s, times):
    for _ in range(times):
        asked = sizes.partition_bytes
        sizes.adapt_to_response(asked, requested_bytes=asked, elapsed_s=1.0, rtt_s=rtt_s)
    return sizes.partition_bytes


def test_sizes_stay_between_their_bounds():
    sizes = AdaptiveFetchSize()
    assert answered_full(sizes, rtt_s=0.9, times=20) == fetch_sizes.FETCH_BYTES_MAX
    assert answered_full(sizes, rtt_s=0.001, times=20) == fetch_sizes.FETCH_BYTES_MIN


@pytest.mark.parametrize("given_mb", [1, 3, 16, 50])
def test_sizes_never_fall_below_what_was_set(given_mb):
    sizes = AdaptiveFetchSize(partition_bytes=given_mb * MB, min_bytes=given_mb * MB)
    for rtt_s in (0.9, 0.001):
        assert answered_full(sizes, rtt_s=rtt_s, times=10) >= given_mb * MB
