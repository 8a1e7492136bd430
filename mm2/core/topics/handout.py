"""Which partitions a flow's tasks are handed, from one look at its clusters to the next (planner).

What was handed out last is read from the task configurations that stand in the group's own topic,
whoever led then: nothing else needs to be remembered, and any worker may plan next. The first plan
is Java's round-robin; later ones leave partitions where they are, so that only tasks whose share
changes notice.

The flow's start is for topics that are there when it begins. What comes later starts at its first
record, or records between its coming and its first copy would be lost. Known to be there from the
beginning are topics that the first look finds, unless tasks of an earlier look were handed others
under filters that wanted these, too. Where that is not known any more (nothing could be handed out
of a topic that was there, and the connector started anew) more is copied than was asked for, never
less. A flow that was handed nothing so far has not begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.api import errors
from connect_runtime.base import ids
from mm2.core.topics import assigned, split

NOWHERE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one task has; `added` start at their first record."""

    partitions: tuple[ids.TopicPartition, ...]
    added: frozenset[ids.TopicPartition] = frozenset()

    def is_as(self, other: Share) -> bool:
        """The same in any order."""
        return set(self.partitions) == set(other.partitions) and self.added == other.added


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a look found. `topics` are all that the flow mirrors; `copyable` can be handed out; of
    `unsure` topics some cannot for the time being, which is no reason to take them from a task."""

    topics: frozenset[str]
    copyable: frozenset[ids.TopicPartition]
    unsure: frozenset[str] = NOWHERE


def published(configs: Iterable[Mapping[str, str]]) -> list[Share]:
    """What task configurations say; one that cannot be read is an empty share."""
    return [_share(each) for each in configs]


def topics(shares: Iterable[Share]) -> frozenset[str]:
    return frozenset(each.topic for share in shares for each in share.partitions)


def from_the_beginning(
    looked: Looked, before: Sequence[Share], wanted_before: Callable[[str], bool]
) -> frozenset[str]:
    """Topics that the flow's start is for, as the first look of a connector shows them.

    `wanted_before`: were they mirrored under the configuration that `before` was made with?
    """
    if not any(share.partitions for share in before):
        return looked.topics
    return frozenset(topic for topic in looked.topics if not wanted_before(topic))


def shares(
    looked: Looked, before: Sequence[Share], *, beginning: frozenset[str] | None, tasks_max: int
) -> list[Share]:
    """What each task has now; none of them nothing.

    `beginning` as `from_the_beginning` says; None: all start at their first record anyway.
    """
    held = {each for share in before for each in share.partitions}
    handed = looked.copyable | {each for each in held if each.topic in looked.unsure}
    late: set[ids.TopicPartition] = set()
    if beginning is not None:
        late = {each for share in before for each in share.added}
        known = topics(before)
        new = handed - held
        late |= {each for each in new if each.topic in known or each.topic not in beginning}
    if held:
        plan = split.sticky(handed, [share.partitions for share in before], tasks_max)
    else:
        plan = split.round_robin(handed, tasks_max)
    ordered = [_in_order(share, before, at) for at, share in enumerate(split.without_holes(plan))]
    return [Share(partitions=share, added=frozenset(late.intersection(share))) for share in ordered]


def clashes(names: Iterable[str], remote: Callable[[str], str]) -> dict[str, frozenset[str]]:
    """Topics that would have one mirror between them, by its name. No policy of Java's does that,
    only one of the user's own can; their records could not be told apart any more."""
    found: dict[str, set[str]] = {}
    for name in names:
        found.setdefault(remote(name), set()).add(name)
    return {mirror: frozenset(each) for mirror, each in found.items() if len(each) > 1}


def rearranged(
    before: Sequence[Share], plan: Iterable[Sequence[ids.TopicPartition]]
) -> list[Share]:
    """The same partitions in other shares; what came later still did."""
    late = {each for share in before for each in share.added}
    return [
        Share(partitions=tuple(share), added=frozenset(late.intersection(share))) for share in plan
    ]


def differ(one: Sequence[Share], other: Sequence[Share]) -> bool:
    """Would any task notice?"""
    return len(one) != len(other) or not all(
        mine.is_as(theirs) for mine, theirs in zip(one, other, strict=True)
    )


def _in_order(
    share: Sequence[ids.TopicPartition], before: Sequence[Share], at: int
) -> tuple[ids.TopicPartition, ...]:
    """As it was written, if it is the same: Java's leaders write them in no order."""
    if at < len(before) and set(before[at].partitions) == set(share):
        return before[at].partitions
    return tuple(share)


def _share(config: Mapping[str, str]) -> Share:
    try:
        return Share(partitions=tuple(assigned.partitions(config)), added=assigned.added(config))
    except errors.ConfigError:
        return Share(partitions=())
