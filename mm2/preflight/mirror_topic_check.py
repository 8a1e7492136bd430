"""Findings about the topics that a flow mirrors, and about their mirror topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from connect_runtime.base import plurals
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity
from mm2.suggested_commands import OperatorCommands
from mm2.topics.flow_config import Flow
from mm2.topics.mirror_topic_plan import MirrorFindingSeverity, MirrorTopicPlan, ObservedTopic

_RETENTION_KEY = "retention.ms"
_CLEANUP_POLICY_KEY = "cleanup.policy"
_MAX_MESSAGE_BYTES_KEY = "max.message.bytes"
_SHORT_RETENTION_MS = 3_600_000
_MAX_NAMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMirrors:
    """Topics and mirror topics of a flow, as reported by both clusters."""

    flow: Flow
    source: Mapping[str, ObservedTopic]
    mirrors: Mapping[str, ObservedTopic]
    """Existing mirror topics, by name."""
    planned: MirrorTopicPlan
    leaderless: Mapping[str, Collection[int]]
    """Partitions without a leader, by topic or mirror topic."""
    undescribed: Mapping[str, str]
    """Reason why a topic or mirror topic could not be described, by topic."""
    refused: Mapping[str, str]
    """Reason why a mirror topic could not be created, by topic."""
    name_conflicts: Mapping[str, Collection[str]]
    """Source topics that would have the same mirror topic, by mirror topic name."""
    reserved: Mapping[str, str]
    """Topics that must not be mirrored, with the reason: their mirror topic's name is reserved."""
    default_retention_ms: int | None
    """Default retention of the target's brokers in milliseconds; None if unknown."""


def check_mirror_topics(
    seen: ObservedMirrors, operator: OperatorCommands
) -> Iterator[CheckFinding]:
    """Report problems with mirror topics. Identical problems in several topics are merged into one
    finding."""
    if not seen.source and not seen.undescribed:
        yield _build_finding(
            seen,
            "no-topics",
            f"no topic of {seen.flow.source} is replicated by this flow",
            effect="the flow runs, but replicates nothing until such a topic exists",
            fix=(
                "correct topics and topics.exclude, or grant DESCRIBE on the topics: without "
                "DESCRIBE, they are not visible"
            ),
            severity=CheckSeverity.WARNING,
            command=operator.source.build_allow_topic_command(
                "NAME", "Describe", "DescribeConfigs", "Read"
            ),
        )
    yield from _merge_findings_by_topic(_list_findings_by_topic(seen, operator))
    for mirror, topics in sorted(seen.name_conflicts.items()):
        yield _build_finding(
            seen,
            "mirrors-clash",
            f"topics {' and '.join(sorted(topics))} would have the same mirror topic {mirror}",
            effect="these topics are not replicated",
            fix="use a replication.policy.class that renames the topics, or exclude all but one",
        )
    for topic, reason in sorted(seen.reserved.items()):
        yield _build_finding(
            seen,
            "mirror-name-reserved",
            f"topic {topic} must not be mirrored: {reason}",
            effect="the topic is not replicated",
            fix="rename the topic, or exclude it with topics.exclude",
            severity=CheckSeverity.WARNING,
        )


def _list_findings_by_topic(
    seen: ObservedMirrors, operator: OperatorCommands
) -> Iterator[tuple[str, CheckFinding]]:
    """Yield each finding together with its topic. The text of a finding does not name the topic:
    the caller merges findings that differ only in the topic, and adds the topic names."""
    for found in seen.planned.findings:
        stops = found.severity is MirrorFindingSeverity.STOP
        yield (
            f"{found.topic} -> {found.target_topic}",
            _build_finding(
                seen,
                f"mirror-{found.setting or 'topic'}".replace(".", "-"),
                found.problem,
                effect="the topic is not replicated" if stops else "it is replicated anyway",
                fix=found.remedy,
                severity=CheckSeverity.FAILED if stops else CheckSeverity.WARNING,
                word=CheckArea.SETTINGS if found.setting else CheckArea.TOPICS,
                command=found.command,
            ),
        )
    for name, partitions in sorted(seen.leaderless.items()):
        numbers = ", ".join(map(str, sorted(partitions)[:_MAX_NAMES]))
        have = plurals.conjugate_verb(len(partitions), "have")
        yield (
            name,
            _build_finding(
                seen,
                "no-leader",
                f"{len(partitions)} of its partitions {have} no leader ({numbers})",
                effect="these partitions can be neither read nor written until they have a leader",
                fix="start the brokers that have replicas of these partitions",
                command=(
                    operator.source if name in seen.source else operator.target
                ).build_show_topic_command(name),
            ),
        )
    for name, why in sorted(seen.undescribed.items()):
        yield (
            name,
            _build_finding(
                seen,
                "topic-unseen",
                why.replace(f"topic {name}", "it"),
                effect="it is unknown whether the topic can be replicated",
                fix="fix the cause named in the message, then check again",
            ),
        )
    for mirror, why in sorted(seen.refused.items()):
        yield (
            mirror,
            _build_finding(
                seen,
                "mirror-refused",
                "the cluster refuses to create the mirror topic: "
                f"{why.replace(f'topic {mirror}', 'it')}",
                effect="the topic is not replicated",
                fix="correct the cause named in the cluster's error message",
            ),
        )
    yield from _check_retention(seen)
    yield from _check_message_sizes(seen)


def _check_retention(seen: ObservedMirrors) -> Iterator[tuple[str, CheckFinding]]:
    made = {each.topic: each.configs for each in seen.planned.create}
    altered = {each.topic: each.set for each in seen.planned.alter}
    for name, topic in sorted(seen.source.items()):
        ours = _parse_number(topic.get_config(_RETENTION_KEY))
        if ours is None or "delete" not in (topic.get_config(_CLEANUP_POLICY_KEY) or ""):
            continue
        if 0 <= ours < _SHORT_RETENTION_MS:
            text = f"{_RETENTION_KEY} is {ours} on the source"
            yield (
                name,
                _build_finding(
                    seen,
                    "retention-short",
                    text,
                    effect="records are lost if mm2 is stopped for longer than the retention time",
                    fix=(
                        f"set {_RETENTION_KEY} of the source topic to at least the duration of the "
                        "longest outage that must not cause data loss"
                    ),
                    severity=CheckSeverity.NOTE,
                    word=CheckArea.SETTINGS,
                ),
            )
        mirror = seen.mirrors.get(seen.flow.format_remote_topic(name))
        theirs = _parse_number((altered.get(name) or made.get(name) or {}).get(_RETENTION_KEY))
        if theirs is None:
            theirs = (
                seen.default_retention_ms
                if mirror is None
                else _parse_number(mirror.get_config(_RETENTION_KEY))
            )
        if theirs is None or theirs < 0 or 0 <= ours <= theirs:
            continue
        yield (
            name,
            _build_finding(
                seen,
                "retention-shorter",
                f"{_RETENTION_KEY} is {ours} on the source, {theirs} on the mirror",
                effect=(
                    "the mirror topic deletes records that the source still has, and deletes old "
                    "records soon after they were replicated"
                ),
                fix=(
                    f"set {_RETENTION_KEY} on the source topic (its mirror topic gets the same "
                    "setting), or on the target's brokers"
                ),
                severity=CheckSeverity.WARNING,
                word=CheckArea.SETTINGS,
            ),
        )


def _check_message_sizes(seen: ObservedMirrors) -> Iterator[tuple[str, CheckFinding]]:
    for name, topic in sorted(seen.source.items()):
        largest = _parse_number(topic.get_config(_MAX_MESSAGE_BYTES_KEY))
        if largest is not None and largest > seen.flow.buffer_bytes:
            yield (
                name,
                _build_finding(
                    seen,
                    "buffer-small",
                    f"{_MAX_MESSAGE_BYTES_KEY} is {largest}, buffer.memory of the flow is "
                    f"{seen.flow.buffer_bytes}",
                    effect="a batch that must be decoded may halt its partition (batch-too-large)",
                    fix=f"set buffer.memory to at least {2 * largest}",
                    severity=CheckSeverity.WARNING,
                    word=CheckArea.SETTINGS,
                ),
            )


def _merge_findings_by_topic(
    found: Iterator[tuple[str, CheckFinding]],
) -> Iterator[CheckFinding]:
    """Merge findings that differ only in the topic. The merged finding has the first topic's
    command."""
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
    effect: str,
    fix: str,
    severity: CheckSeverity = CheckSeverity.FAILED,
    word: CheckArea = CheckArea.TOPICS,
    command: str = "",
) -> CheckFinding:
    return CheckFinding(
        subject=seen.flow.name,
        area=word,
        severity=severity,
        code=code,
        text=text,
        effect=effect,
        fix=fix,
        command=command,
    )


def _parse_number(value: str | None) -> int | None:
    return None if value is None else int(value)
