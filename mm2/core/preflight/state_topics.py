"""What is wrong with topics that a flow keeps for itself, as they are or as they would be made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from connect_runtime.base import amounts
from mm2.core import commands
from mm2.core.preflight import findings

_POLICY = "cleanup.policy"
_COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTopic:
    """`holds`: what would be lost with it. `partitions` None: any number will do.

    `replication_factor` -1 leaves it to the brokers; `factor_key` sets it. `refused`: is a flow
    refused to run with one that is made otherwise?
    """

    name: str
    holds: str
    partitions: int | None
    replication_factor: int
    factor_key: str
    refused: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A topic that is there. `cleanup_policy` None: it may not be read."""

    partitions: int
    cleanup_policy: str | None


def judge(
    flow: str, topic: StateTopic, seen: Seen, *, tool: commands.Cluster
) -> Iterator[findings.Finding]:
    """`tool` is the cluster that the topic is on."""
    weight = findings.Weight.FAILED if topic.refused else findings.Weight.WARNING
    if topic.partitions is not None and seen.partitions != topic.partitions:
        yield findings.Finding(
            subject=flow,
            word=findings.Word.TOPICS,
            weight=weight,
            code="state-topic-partitions",
            text=f"topic {topic.name} has {amounts.counted(seen.partitions, 'partition')}",
            means=f"it must have {topic.partitions}: the order of {topic.holds} is lost"
            + (", and the flow does not begin" if topic.refused else ""),
            mend="delete it if this flow has never run: it is made anew",
            command=tool.delete_topic(topic.name),
        )
    if seen.cleanup_policy is None:
        return
    policies = {each.strip() for each in seen.cleanup_policy.split(",")}
    if policies != {_COMPACT}:
        yield findings.Finding(
            subject=flow,
            word=findings.Word.TOPICS,
            weight=weight,
            code="state-topic-cleanup",
            text=f"topic {topic.name} has {_POLICY}={seen.cleanup_policy}",
            means=f"{topic.holds} are deleted by age"
            + (": the flow does not begin" if topic.refused else ""),
            mend=f"set {_POLICY}={_COMPACT} on it, and look for what is lost already",
            command=tool.set_topic(topic.name, {_POLICY: _COMPACT}),
        )


def refused(flow: str, why: Mapping[str, str]) -> Iterator[findings.Finding]:
    """Of topics that the cluster would not make, by their names; one finding for one reason."""
    by_reason: dict[str, list[str]] = {}
    for name, text in sorted(why.items()):
        by_reason.setdefault(text.replace(f"topic {name}", "it"), []).append(name)
    for reason, names in by_reason.items():
        what = names[0] if len(names) == 1 else amounts.counted(len(names), "internal topic")
        yield findings.Finding(
            subject=flow,
            word=findings.Word.TOPICS,
            weight=findings.Weight.FAILED,
            code="state-topic-refused",
            text=f"the cluster would not create {what}: {reason}",
            affects=tuple(names) if len(names) > 1 else (),
            means="the flow does not start",
            mend="change what the cluster's answer names",
        )
