"""What is wrong with the topics of a flow and their mirrors, as they are and as they would be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from connect_runtime.base import amounts
from mm2.core import commands, flows
from mm2.core.preflight import findings
from mm2.core.topics import plan as topic_plan
from mm2.core.topics import snapshot

_RETENTION = "retention.ms"
_CLEANUP = "cleanup.policy"
_MESSAGE_BYTES = "max.message.bytes"
_SHORT_MS = 3_600_000
_NAMES_TOLD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrors:
    """What both sides told. `there`: mirrors that are there, by their names.

    By names of topics and mirrors: `leaderless` partitions that nobody leads, `unseen` why they
    could not be looked at, `refused` why mirrors would not be made. `default_retention_ms`: what
    the target's brokers give new topics, None: not known.
    """

    flow: flows.Flow
    source: Mapping[str, snapshot.Topic]
    there: Mapping[str, snapshot.Topic]
    planned: topic_plan.Plan
    leaderless: Mapping[str, Collection[int]]
    unseen: Mapping[str, str]
    refused: Mapping[str, str]
    clashes: Mapping[str, Collection[str]]
    default_retention_ms: int | None


def judge(seen: Mirrors, operator: commands.Operator) -> Iterator[findings.Finding]:
    """Alike ones of many topics are one."""
    if not seen.source and not seen.unseen:
        yield _finding(
            seen,
            "no-topics",
            f"no topic of {seen.flow.source} is mirrored by this flow",
            means="it runs, and copies nothing, until there is such a topic",
            mend="correct topics and topics.exclude, or grant DESCRIBE on the topics: without that "
            "right they are not seen",
            weight=findings.Weight.WARNING,
            command=operator.source.allow_topic("NAME", "Describe", "DescribeConfigs", "Read"),
        )
    yield from _together(_each(seen, operator))
    for mirror, topics in sorted(seen.clashes.items()):
        yield _finding(
            seen,
            "mirrors-clash",
            f"topics {' and '.join(sorted(topics))} would all be {mirror}",
            means="none of them is mirrored",
            mend="let replication.policy.class name them apart, or leave all but one out",
        )


def _each(seen: Mirrors, operator: commands.Operator) -> Iterator[tuple[str, findings.Finding]]:
    """With the topic, which is told once for all that are alike."""
    for found in seen.planned.findings:
        stops = found.severity is topic_plan.Severity.STOP
        yield (
            f"{found.topic} -> {found.target_topic}",
            _finding(
                seen,
                f"mirror-{found.setting or 'topic'}".replace(".", "-"),
                found.problem,
                means="the topic is not copied" if stops else "copying goes on in spite of it",
                mend=found.remedy,
                weight=findings.Weight.FAILED if stops else findings.Weight.WARNING,
                word=findings.Word.SETTINGS if found.setting else findings.Word.TOPICS,
                command=found.command,
            ),
        )
    for name, partitions in sorted(seen.leaderless.items()):
        numbers = ", ".join(map(str, sorted(partitions)[:_NAMES_TOLD]))
        have = amounts.agreeing(len(partitions), "have")
        yield (
            name,
            _finding(
                seen,
                "no-leader",
                f"{len(partitions)} of its partitions {have} no leader ({numbers})",
                means="these can be neither read nor written until a broker leads them",
                mend="start the brokers that hold them",
                command=(operator.source if name in seen.source else operator.target).show_topic(
                    name
                ),
            ),
        )
    for name, why in sorted(seen.unseen.items()):
        yield (
            name,
            _finding(
                seen,
                "topic-unseen",
                why.replace(f"topic {name}", "it"),
                means="whether it can be copied is not known",
                mend="mend what the message names, and check again",
            ),
        )
    for mirror, why in sorted(seen.refused.items()):
        yield (
            mirror,
            _finding(
                seen,
                "mirror-refused",
                f"the cluster would not create it: {why.replace(f'topic {mirror}', 'it')}",
                means="the topic is not copied",
                mend="change what the cluster's answer names",
            ),
        )
    yield from _retention(seen)
    yield from _sizes(seen)


def _retention(seen: Mirrors) -> Iterator[tuple[str, findings.Finding]]:
    made = {each.topic: each.configs for each in seen.planned.create}
    altered = {each.topic: each.set for each in seen.planned.alter}
    for name, topic in sorted(seen.source.items()):
        ours = _number(topic.config(_RETENTION))
        if ours is None or "delete" not in (topic.config(_CLEANUP) or ""):
            continue
        if 0 <= ours < _SHORT_MS:
            text = f"{_RETENTION} is {ours} on the source"
            yield (
                name,
                _finding(
                    seen,
                    "retention-short",
                    text,
                    means="when mm2 stands still for that long, records are lost",
                    mend=f"set {_RETENTION} of the source topic to what an outage may last",
                    weight=findings.Weight.NOTE,
                    word=findings.Word.SETTINGS,
                ),
            )
        mirror = seen.there.get(seen.flow.remote_topic(name))
        theirs = _number((altered.get(name) or made.get(name) or {}).get(_RETENTION))
        if theirs is None:
            theirs = (
                seen.default_retention_ms if mirror is None else _number(mirror.config(_RETENTION))
            )
        if theirs is None or theirs < 0 or 0 <= ours <= theirs:
            continue
        yield (
            name,
            _finding(
                seen,
                "retention-shorter",
                f"{_RETENTION} is {ours} on the source, {theirs} on the mirror",
                means="records that the source still has are deleted from the mirror, old ones "
                "soon after they were copied",
                mend=f"set {_RETENTION} on the source topic itself, which mirrors follow, or on "
                "the target's brokers",
                weight=findings.Weight.WARNING,
                word=findings.Word.SETTINGS,
            ),
        )


def _sizes(seen: Mirrors) -> Iterator[tuple[str, findings.Finding]]:
    for name, topic in sorted(seen.source.items()):
        largest = _number(topic.config(_MESSAGE_BYTES))
        if largest is not None and largest > seen.flow.buffer_bytes:
            yield (
                name,
                _finding(
                    seen,
                    "buffer-small",
                    f"{_MESSAGE_BYTES} is {largest}, buffer.bytes of the flow "
                    f"{seen.flow.buffer_bytes}",
                    means="one batch may be larger than all that a task may hold",
                    mend=f"set buffer.bytes to {2 * largest} at least",
                    weight=findings.Weight.WARNING,
                    word=findings.Word.SETTINGS,
                ),
            )


def _together(
    found: Iterator[tuple[str, findings.Finding]],
) -> Iterator[findings.Finding]:
    """What is alike but for the topic is told once, with the first topic's command."""
    alike: dict[tuple[str, str], list[tuple[str, findings.Finding]]] = defaultdict(list)
    for name, each in found:
        alike[each.code, each.text].append((name, each))
    for members in alike.values():
        names = [name for name, _ in members]
        more = len(names) - _NAMES_TOLD
        told = ", ".join(names[:_NAMES_TOLD]) + (f" and {more} more" if more > 0 else "")
        first = members[0][1]
        yield replace(first, text=f"{told}: {first.text}")


def _finding(
    seen: Mirrors,
    code: str,
    text: str,
    *,
    means: str,
    mend: str,
    weight: findings.Weight = findings.Weight.FAILED,
    word: findings.Word = findings.Word.TOPICS,
    command: str = "",
) -> findings.Finding:
    return findings.Finding(
        subject=seen.flow.name,
        word=word,
        weight=weight,
        code=code,
        text=text,
        means=means,
        mend=mend,
        command=command,
    )


def _number(value: str | None) -> int | None:
    return None if value is None else int(value)
