"""How latencies are summed up."""

from __future__ import annotations

import array
import math

from mm2.sandbox.traffic import latency_probe


def test_percentiles_are_taken_by_rank():
    samples = array.array("d", reversed(range(1_000)))
    found = latency_probe.compute_percentiles(samples)
    assert (found.count, found.p50_ms, found.p99_ms) == (1_000, 500.0, 990.0)
    assert (found.p999_ms, found.max_ms) == (999.0, 999.0)


def test_no_samples_are_no_latency():
    found = latency_probe.compute_percentiles(array.array("d"))
    assert found.count == 0
    assert math.isnan(found.p99_ms)
