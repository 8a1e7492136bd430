"""What a look at a flow's topics and their mirrors found: pairs, and why others are not copied.

What goes wrong concerns single topics, and is told of each, with the command that may mend it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import admin
from mm2.core import commands, flows
from mm2.core.topics import plan as topic_plan
from mm2.core.topics import snapshot

T = TypeVar("T")

TARGET_SETTING = "target-setting"
"""Cause of a problem: a setting of the mirror under which copying would do harm."""
TOPIC_REFUSED = "topic-refused"
SAME_TOPIC = "same-topic"
SOURCE_TOO_SMALL = "source-too-small"
MIRROR_TOO_SMALL = "mirror-too-small"
CAUSES = (TARGET_SETTING, TOPIC_REFUSED, SAME_TOPIC, SOURCE_TOO_SMALL, MIRROR_TOO_SMALL)
"""Every cause of a problem or finding, as in the metric label `cause`;
`deploy/guides/halt-reasons.md` explains each."""
SOURCE_RIGHTS = ("Describe", "DescribeConfigs", "Read")
MIRROR_RIGHTS = (
    *("Create", "Alter", "AlterConfigs", "Describe", "DescribeConfigs"),
    *("Read", "Write"),
)
"""All that a flow needs on a topic, so that granting it is done once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A topic of the source and its mirror, as the target's brokers know it (it may be short)."""

    topic: snapshot.Topic
    mirror: snapshot.Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a topic of so many `partitions` is not copied. `passing`: it may go by itself.

    `remedy` is a command that may mend it, "" where none is known.
    """

    cause: str
    message: str
    partitions: int
    passing: bool = False
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """By the source topic's name: each is in `pairs` or in `problems`, and may have warnings."""

    pairs: Mapping[str, Pair]
    problems: Mapping[str, Problem]
    warnings: Mapping[str, tuple[str, ...]]

    def passing(self) -> list[str]:
        return sorted(name for name, each in self.problems.items() if each.passing)

    def updated(self, later: Topics) -> Topics:
        """With what was found of some topics later."""
        seen = later.pairs.keys() | later.problems.keys()
        return Topics(
            pairs={**self.pairs, **later.pairs},
            problems={**_without(self.problems, seen), **later.problems},
            warnings={**_without(self.warnings, seen), **later.warnings},
        )


def told(
    flow: flows.Flow,
    operator: commands.Operator,
    *,
    source: admin.PerTopic[snapshot.Topic],
    mirrors: admin.PerTopic[snapshot.Topic],
    blocked: Mapping[str, topic_plan.Finding],
) -> Topics:
    """What both sides answered, and which topics of the source a setting blocks."""
    topics = {flow.remote_topic(name): topic for name, topic in source.done.items()}
    problems = {
        name: _failure(
            f"{flow.name} {name}: {error}",
            1,
            error,
            passing=isinstance(error, errors.RetriableError),
            right=operator.source.allow_topic(name, *SOURCE_RIGHTS),
        )
        for name, error in source.failed.items()
    }
    for mirror, error in mirrors.failed.items():
        topic = topics[mirror]
        problems[topic.name] = _failure(
            f"{flow.name} {topic.name}: {error}",
            topic.partitions,
            error,
            passing=_may_pass(error),
            right=operator.target.allow_topic(mirror, *MIRROR_RIGHTS),
        )
    for name, finding in blocked.items():
        problems[name] = _blocked(source.done[name], finding)
    return Topics(
        pairs={
            topics[mirror].name: Pair(topic=topics[mirror], mirror=each)
            for mirror, each in mirrors.done.items()
            if topics[mirror].name not in blocked
        },
        problems=problems,
        warnings={},
    )


def warnings(planned: topic_plan.Plan) -> dict[str, tuple[str, ...]]:
    """By topic: what copying goes on in spite of."""
    found: dict[str, tuple[str, ...]] = {}
    for each in planned.findings:
        if not stops(each):
            line = f"{each}. {commands.to_go_on(each.command)}" if each.command else str(each)
            found[each.topic] = (*found.get(each.topic, ()), line)
    return found


def stops(finding: topic_plan.Finding) -> bool:
    """Is the topic not copied because of it?"""
    return finding.severity is topic_plan.Severity.STOP


def may_come(error: errors.ConnectError) -> bool:
    """Of a mirror that was listed, or whose creation was acknowledged, just now."""
    return isinstance(error, (errors.RetriableError, kafka_errors.TopicMissingError))


def _failure(
    message: str, partitions: int, error: errors.ConnectError, *, passing: bool, right: str
) -> Problem:
    """`right` is the command that grants what may be lacking."""
    lacking = isinstance(error, kafka_errors.NotAuthorizedError)
    return Problem(
        cause=TOPIC_REFUSED,
        message=message,
        partitions=partitions,
        passing=passing,
        remedy=right if lacking else "",
    )


def _blocked(topic: snapshot.Topic, finding: topic_plan.Finding) -> Problem:
    return Problem(
        cause=TARGET_SETTING,
        message=str(finding),
        partitions=topic.partitions,
        remedy=finding.command,
    )


def _without(found: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {name: each for name, each in found.items() if name not in names}


def _may_pass(error: errors.ConnectError) -> bool:
    """Of a mirror: one that exists although it was not listed will be listed."""
    return may_come(error) or isinstance(error, kafka_errors.TopicExistsError)
