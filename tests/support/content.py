"""Records to send, and the proof that they arrived in the mirror."""

from __future__ import annotations

from typing import Any

from mm2.sandbox import replication_proof
from tests.support import eventually, kafka
from tests.support.kafka import Outgoing, Properties, Record


def some(count: int = 20, *, bytes_each: int = 100, **more: Any) -> list[Outgoing]:
    """Records that differ; `more` are fields of all of them."""
    return [
        Outgoing(key=b"%d" % number, value=b"%09d" % number * (bytes_each // 9), **more)
        for number in range(count)
    ]


def assert_mirrored(
    east: Properties, west: Properties, *topics: str, restamped: bool = False
) -> None:
    """Whoever reads `east.<topic>` gets what readers of the topic get, committed or not.

    `restamped`: their source stamps what is appended, so that the kind of timestamp differs.
    """
    for isolation in ("read_committed", "read_uncommitted"):
        found = replication_proof.compare_topics(
            east,
            west,
            {topic: f"east.{topic}" for topic in topics},
            isolation=isolation,
            restamped=topics if restamped else (),
        )
        assert found.is_equal, f"{isolation}:\n{found}"
        assert found.records > 0


def assert_goes_on(
    east: Properties,
    west: Properties,
    topic: str,
    *,
    start: int,
    kept: list[Record],
    deadline_s: float = 60.0,
) -> None:
    """Soon `east.<topic>` holds what it held, and behind it what its source has from `start` on."""

    def equal() -> bool:
        here = kafka.read_partition(east, topic, start=start)
        there = kafka.read_partition(west, f"east.{topic}")
        assert kafka.differences(kept, there[: len(kept)]) == []
        assert kafka.differences(here, there[len(kept) :]) == []
        return bool(here)

    eventually.eventually(equal, deadline_s, interval_s=0.5)
