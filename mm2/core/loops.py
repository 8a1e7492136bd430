"""How a flow keeps records from going in circles, and when it cannot (planner).

Where the policy renames topics their names tell where they have been (`naming.is_cycle`). Where it
does not, A->B and B->A write into the same topics, and only who wrote a batch tells: the opposite
flow keeps its producer ids in its map topic, on this flow's source. What somebody else wrote for
it, Java for instance, looks like any local record.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2.core import flows, naming


class Guard(enum.Enum):
    """By what a flow knows what must not be copied back."""

    NAMES = "names"
    PRODUCERS = "producers"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opposite:
    """What is seen of the flow target -> source, on this flow's source.

    `map_topic`: it exists, so that flow is or was ours. `java`: a Java connector's progress of
    topics stands in its offsets topic, and was not taken over by ours. `repartitions`: transforms
    of it send records to other partitions than they came from.
    """

    map_topic: bool = False
    java: bool = False
    repartitions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`refused` is why the flow must not run, with the ways on; "" if it may."""

    guard: Guard
    refused: str = ""


def opposite_map_topic(flow: flows.Flow) -> str:
    """Where the opposite flow keeps its producer ids; on the source of this one."""
    return naming.map_topic(flow.target)


def verdict(flow: flows.Flow, opposite: Opposite) -> Verdict:
    """Heartbeats aside: all policies rename them.

    Records that Java wrote lie before whatever is written now: a flow that begins at the latest
    record never meets them, once Java has stopped.
    """
    if flow.policy.renames_topics:
        return Verdict(guard=Guard.NAMES)
    back = f"{flow.target}->{flow.source}"
    ways = "use the default policy, or exclude these topics on one side"
    if opposite.repartitions:
        why = f"transforms of {back} move records to other partitions, where they look like local"
        return Verdict(guard=Guard.PRODUCERS, refused=f"{why} ones: {ways}")
    if opposite.java and flow.start.at is not flows.StartAt.LATEST:
        why = f"Java mirrored {back} into the same topics, and its records look like local ones"
        later = "or stop Java and begin with start=latest"
        return Verdict(guard=Guard.PRODUCERS, refused=f"{why}: {ways}, {later}")
    seen = opposite.map_topic or opposite.java
    return Verdict(guard=Guard.PRODUCERS if seen else Guard.NOTHING)
