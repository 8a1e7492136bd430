"""Findings about the topics that a flow mirrors, and about their mirror topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from connect_runtime.base import plurals
from mm2.operator_commands import OperatorCommands
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity
from mm2.topics.flow_config import Flow
from mm2.topics.mirror_plan import MirrorFindingSeverity, MirrorTopicPlan, ObservedTopic

_RETENTION_KEY = "retention.ms"
_CLEANUP_POLICY_KEY = "cleanup.policy"
_MAX_MESSAGE_BYTES_KEY = "max.message.bytes"
_SHORT_RETENTION_MS = 3_600_000
_MAX_NAMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMirrors:
    """What both sides told. `there`: mirrors that are there, by their names.

    By names of topics and mirrors: `leaderless` partitions that nobody leads, `unseen` why they
    could not be looked at, `refused` why mirrors would not be made. `default_retention_ms`: what
    the target's brokers give new topics, None: not known.
    """

    flow: Flow
    source: Mapping[str, ObservedTopic]
    there: Mapping[str, ObservedTopic]
    planned: MirrorTopicPlan
    leaderless: Mapping[str, Collection[int]]
    unseen: Mapping[str, str]
    refused: Mapping[str, str]
    clashes: Mapping[str, Collection[str]]
    default_retention_ms: int | None


def check_mirror_topics(
    seen: ObservedMirrors, operator: OperatorCommands
) -> Iterator[CheckFinding]:
    """Alike ones of many topics are one."""
    if not seen.source and not seen.unseen:
        yield _build_finding(
            seen,
            "no-topics",
            f"no topic of {seen.flow.source} is mirrored by this flow",
            means="it runs, and copies nothing, until there is such a topic",
            mend="correct topics and topics.exclude, or grant DESCRIBE on the topics: without that "
            "right they are not seen",
            weight=CheckSeverity.WARNING,
            command=operator.source.allow_topic("NAME", "Describe", "DescribeConfigs", "Read"),
        )
    yield from _merge_alike(_check_each_topic(seen, operator))
    for mirror, topics in sorted(seen.clashes.items()):
        yield _build_finding(
            seen,
            "mirrors-clash",
            f"topics {' and '.join(sorted(topics))} would all be {mirror}",
            means="none of them is mirrored",
            mend="let replication.policy.class name them apart, or leave all but one out",
        )


def _check_each_topic(
    seen: ObservedMirrors, operator: OperatorCommands
) -> Iterator[tuple[str, CheckFinding]]:
    """With the topic, which is told once for all that are alike."""
    for found in seen.planned.findings:
        stops = found.severity is MirrorFindingSeverity.STOP
        yield (
            f"{found.topic} -> {found.target_topic}",
            _build_finding(
                seen,
                f"mirror-{found.setting or 'topic'}".replace(".", "-"),
                found.problem,
                means="the topic is not copied" if stops else "copying goes on in spite of it",
                mend=found.remedy,
                weight=CheckSeverity.FAILED if stops else CheckSeverity.WARNING,
                word=CheckArea.SETTINGS if found.setting else CheckArea.TOPICS,
                command=found.command,
            ),
        )
    for name, partitions in sorted(seen.leaderless.items()):
        numbers = ", ".join(map(str, sorted(partitions)[:_MAX_NAMES]))
        have = plurals.conjugate(len(partitions), "have")
        yield (
            name,
            _build_finding(
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
            _build_finding(
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
            _build_finding(
                seen,
                "mirror-refused",
                f"the cluster would not create it: {why.replace(f'topic {mirror}', 'it')}",
                means="the topic is not copied",
                mend="change what the cluster's answer names",
            ),
        )
    yield from _check_retention(seen)
    yield from _check_message_sizes(seen)


def _check_retention(seen: ObservedMirrors) -> Iterator[tuple[str, CheckFinding]]:
    made = {each.topic: each.configs for each in seen.planned.create}
    altered = {each.topic: each.set for each in seen.planned.alter}
    for name, topic in sorted(seen.source.items()):
        ours = _parse_number(topic.config(_RETENTION_KEY))
        if ours is None or "delete" not in (topic.config(_CLEANUP_POLICY_KEY) or ""):
            continue
        if 0 <= ours < _SHORT_RETENTION_MS:
            text = f"{_RETENTION_KEY} is {ours} on the source"
            yield (
                name,
                _build_finding(
                    seen,
                    "retention-short",
                    text,
                    means="when mm2 stands still for that long, records are lost",
                    mend=f"set {_RETENTION_KEY} of the source topic to what an outage may last",
                    weight=CheckSeverity.NOTE,
                    word=CheckArea.SETTINGS,
                ),
            )
        mirror = seen.there.get(seen.flow.remote_topic(name))
        theirs = _parse_number((altered.get(name) or made.get(name) or {}).get(_RETENTION_KEY))
        if theirs is None:
            theirs = (
                seen.default_retention_ms
                if mirror is None
                else _parse_number(mirror.config(_RETENTION_KEY))
            )
        if theirs is None or theirs < 0 or 0 <= ours <= theirs:
            continue
        yield (
            name,
            _build_finding(
                seen,
                "retention-shorter",
                f"{_RETENTION_KEY} is {ours} on the source, {theirs} on the mirror",
                means="records that the source still has are deleted from the mirror, old ones "
                "soon after they were copied",
                mend=f"set {_RETENTION_KEY} on the source topic itself, which mirrors follow, "
                "or on "
                "the target's brokers",
                weight=CheckSeverity.WARNING,
                word=CheckArea.SETTINGS,
            ),
        )


def _check_message_sizes(seen: ObservedMirrors) -> Iterator[tuple[str, CheckFinding]]:
    for name, topic in sorted(seen.source.items()):
        largest = _parse_number(topic.config(_MAX_MESSAGE_BYTES_KEY))
        if largest is not None and largest > seen.flow.buffer_bytes:
            yield (
                name,
                _build_finding(
                    seen,
                    "buffer-small",
                    f"{_MAX_MESSAGE_BYTES_KEY} is {largest}, buffer.bytes of the flow "
                    f"{seen.flow.buffer_bytes}",
                    means="one batch may be larger than all that a task may hold",
                    mend=f"set buffer.bytes to {2 * largest} at least",
                    weight=CheckSeverity.WARNING,
                    word=CheckArea.SETTINGS,
                ),
            )


def _merge_alike(
    found: Iterator[tuple[str, CheckFinding]],
) -> Iterator[CheckFinding]:
    """What is alike but for the topic is told once, with the first topic's command."""
    alike: dict[tuple[str, str], list[tuple[str, CheckFinding]]] = defaultdict(list)
    for name, each in found:
        alike[each.code, each.text].append((name, each))
    for members in alike.values():
        names = [name for name, _ in members]
        more = len(names) - _MAX_NAMES
        told = ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
        first = members[0][1]
        yield replace(first, text=f"{told}: {first.text}")


def _build_finding(
    seen: ObservedMirrors,
    code: str,
    text: str,
    *,
    means: str,
    mend: str,
    weight: CheckSeverity = CheckSeverity.FAILED,
    word: CheckArea = CheckArea.TOPICS,
    command: str = "",
) -> CheckFinding:
    return CheckFinding(
        subject=seen.flow.name,
        word=word,
        weight=weight,
        code=code,
        text=text,
        means=means,
        mend=mend,
        command=command,
    )


def _parse_number(value: str | None) -> int | None:
    return None if value is None else int(value)
