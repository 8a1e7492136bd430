"""The verdict on a mirror after faults: what an ordinary client reads on both sides is the same."""

from __future__ import annotations

from collections.abc import Sequence

from mm2.sandbox import partition_reader, replication_proof
from mm2.sandbox.log_comparison import TopicsComparison
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.chaos.workloads.writers import Kind


def assert_exactly_once(
    source: SandboxCluster,
    target: SandboxCluster,
    kinds: Sequence[Kind],
    *,
    prefix: str = "east.",
) -> TopicsComparison:
    """Nothing lost, nothing twice, nothing altered, in both isolation levels.

    Of records with old timestamps the promise holds for read_committed readers: their copies go
    in transactions, and who reads uncommitted sees what an interrupted one left.
    """
    everything = compare(source, target, kinds, partition_reader.READ_COMMITTED, prefix=prefix)
    fresh = [kind for kind in kinds if not kind.age_ms]
    compare(source, target, fresh, partition_reader.READ_UNCOMMITTED, prefix=prefix)
    return everything


def compare(
    source: SandboxCluster,
    target: SandboxCluster,
    kinds: Sequence[Kind],
    isolation: str,
    *,
    prefix: str,
) -> TopicsComparison:
    found = replication_proof.compare_topics(
        source.client_properties(),
        target.client_properties(),
        {kind.topic: prefix + kind.topic for kind in kinds},
        isolation=isolation,
    )
    assert found.is_equal, f"{isolation}:\n{found}"
    assert all(_records(found, kind.topic) for kind in kinds), f"a topic is empty:\n{found}"
    return found


def _records(found: TopicsComparison, topic: str) -> int:
    return sum(each.source_records for each in found.partitions if each.source.topic == topic)
