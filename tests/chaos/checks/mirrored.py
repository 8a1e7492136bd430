"""The verdict on a mirror after faults: what an ordinary client reads on both sides is the same."""

from __future__ import annotations

from collections.abc import Sequence

from mm2.sandbox import cluster, comparison, log_reader, proof
from tests.chaos.workloads import writers


def assert_exactly_once(
    source: cluster.Cluster,
    target: cluster.Cluster,
    kinds: Sequence[writers.Kind],
    *,
    prefix: str = "east.",
) -> comparison.Comparison:
    """Nothing lost, nothing twice, nothing altered, in both isolation levels.

    Of records with old timestamps the promise holds for read_committed readers: their copies go
    in transactions, and who reads uncommitted sees what an interrupted one left.
    """
    everything = compare(source, target, kinds, log_reader.READ_COMMITTED, prefix=prefix)
    fresh = [kind for kind in kinds if not kind.age_ms]
    compare(source, target, fresh, log_reader.READ_UNCOMMITTED, prefix=prefix)
    return everything


def compare(
    source: cluster.Cluster,
    target: cluster.Cluster,
    kinds: Sequence[writers.Kind],
    isolation: str,
    *,
    prefix: str,
) -> comparison.Comparison:
    found = proof.compare(
        source.client_properties(),
        target.client_properties(),
        {kind.topic: prefix + kind.topic for kind in kinds},
        isolation=isolation,
    )
    assert found.equal, f"{isolation}:\n{found}"
    assert all(_records(found, kind.topic) for kind in kinds), f"a topic is empty:\n{found}"
    return found


def _records(found: comparison.Comparison, topic: str) -> int:
    return sum(each.source_records for each in found.partitions if each.source.topic == topic)
