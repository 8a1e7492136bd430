"""What a look at a flow's topics tells people who know what the one before it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from connect_runtime.base import ids


def of_partitions(
    before: Iterable[ids.TopicPartition], now: Iterable[ids.TopicPartition]
) -> Iterator[str]:
    """Of topics that came, or have more partitions than before."""
    known = set(before)
    topics = {each.topic for each in known}
    more = Counter(each.topic for each in now if each not in known)
    for topic, count in sorted(more.items()):
        if topic in topics:
            told = f"partitions: {count} more are mirrored, from their first records on"
        else:
            told = f"is mirrored from now on (partitions: {count})"
        yield f"topic {topic} {told}"


def of_gone(before: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    """Of topics that were mirrored, and of which nothing is known any more."""
    for topic in sorted(set(before).difference(now)):
        yield (
            f"topic {topic} is no longer listed by the source (deleted, or DESCRIBE is no longer "
            "allowed): its mirror keeps what was copied"
        )
