"""Problems that no single key shows: unknown clusters, replication loops, shared remote topics."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from connect_runtime.config import config_errors
from mm2.config import flow_keys
from mm2.config.flows_section import FlowEntry
from mm2.config.section_reader import ConfigOption, ProblemCollector
from mm2.topics.flow_config import Flow
from mm2.topics.naming import DefaultReplicationPolicy

_LITERAL = re.compile(r"(?:[a-zA-Z0-9_-]|\\[.-])+")
_MAX_REPORTED_LOOPS = 20
"""In a mesh of n clusters there are more than n! of them."""
_MIN_DISTINCT_NAMES = 2
_SAMPLE_TOPIC = "some-topic"


def check_flows(
    account: ProblemCollector, found: Sequence[FlowEntry], *, aliases: Collection[str]
) -> None:
    """Notes what is wrong between sections; flows with mistakes of their own are left out."""
    for item in found:
        _check_ends(account, item, aliases)
        _check_separator(account, item, aliases)
    _check_duplicates(account, found)
    sound = [
        _ValidFlow(item, item.flow)
        for item in found
        if item.flow is not None and item.enabled and item.source != item.target
    ]
    _check_shared_names(account, sound)
    identity = [item for item in sound if not item.flow.policy.renames_topics]
    for circle in itertools.islice(_find_loops(identity), _MAX_REPORTED_LOOPS):
        _report_loop(account, circle)
    _check_config_sync_both_ways(account, identity)
    _check_mixed_loops(account, sound)


@dataclass(frozen=True, slots=True)
class _ValidFlow:
    """A flow without mistakes, and where it stands."""

    read: FlowEntry
    flow: Flow


def _check_ends(account: ProblemCollector, item: FlowEntry, aliases: Collection[str]) -> None:
    for option, alias in ((flow_keys.SOURCE, item.source), (flow_keys.TARGET, item.target)):
        if alias is None or alias in aliases:
            continue
        shown = _describe_value(item, option)
        account.note(
            item.lines[option.name],
            f"{item.path}.{option.name}",
            "names no cluster of the section clusters",
            given=shown,
            allowed=", ".join(sorted(aliases)) or None,
            nearest=None
            if shown == config_errors.HIDDEN_VALUE
            else config_errors.find_nearest_name(alias, aliases),
        )
    if item.source is not None and item.source == item.target:
        key = f"{item.path}.{flow_keys.TARGET.name}"
        text = "is the source itself: a flow needs two clusters"
        shown = _describe_value(item, flow_keys.TARGET)
        account.note(item.lines[flow_keys.TARGET.name], key, text, given=shown)


def _describe_value(item: FlowEntry, option: ConfigOption[str]) -> str:
    """The setting for people: a value that came through a provider is a secret."""
    return str(item.effective[option.name])


def _check_separator(account: ProblemCollector, item: FlowEntry, aliases: Collection[str]) -> None:
    """`us.east` and "." make `us.east.orders`, whose source then reads as `us`."""
    flow = item.flow
    if flow is None or not isinstance(flow.policy, DefaultReplicationPolicy):
        return
    for alias in (flow.source, flow.target):
        if alias in aliases and flow.policy.separator in alias:
            account.note(
                item.lines[flow_keys.SEPARATOR.name],
                f"{item.path}.{flow_keys.SEPARATOR.name}",
                f"occurs in the alias {alias!r}, so names of remote topics cannot be told apart",
                given=_describe_value(item, flow_keys.SEPARATOR),
                allowed="a separator that is in no alias",
            )


def _check_duplicates(account: ProblemCollector, found: Sequence[FlowEntry]) -> None:
    first: dict[tuple[str, str], FlowEntry] = {}
    for item in found:
        if item.source is None or item.target is None:
            continue
        earlier = first.setdefault((item.source, item.target), item)
        if earlier is not item:
            line = earlier.lines[flow_keys.SOURCE.name]
            ends = f"{_describe_value(item, flow_keys.SOURCE)}->{_describe_value(item, flow_keys.TARGET)}"
            text = (
                f"{ends} is here twice, first in line {line}; put the topics of both into one flow"
            )
            account.note(item.lines[flow_keys.SOURCE.name], item.path, text)


def _check_shared_names(account: ProblemCollector, sound: Sequence[_ValidFlow]) -> None:
    """Two flows from different sources into the same names of one target.

    Where both keep names, only lists of names can tell them apart. Where one renames, topics called
    like its copies are rare: only names that stand in a list count, and if the other flow has them
    from a wider expression only, this is a warning.
    """
    for one, other in itertools.combinations(sound, 2):
        if one.flow.target != other.flow.target or one.flow.source == other.flow.source:
            continue
        both, target = f"{other.flow.name} and {one.flow.name}", one.flow.target
        shared = _find_shared_topics(one.flow, other.flow) + _find_shared_topics(
            other.flow, one.flow
        )
        if not (one.flow.policy.renames_topics or other.flow.policy.renames_topics):
            if _may_overlap([one, other]):
                text = (
                    f"{both} keep topic names and could write to the same topics of {target}: "
                    r"list different topics by name in both (dots as \.)"
                )
                _report_topics(account, other, text)
        elif shared:
            copy, listed = max(shared, key=lambda item: item[1])
            text = (
                f"{both} would both write to {copy} of {target}, as their policies name copies: "
                "exclude the topic in one of them"
            )
            _report_topics(account, other, text, warning=not listed)


def _report_topics(
    account: ProblemCollector, item: _ValidFlow, text: str, *, warning: bool = False
) -> None:
    key = f"{item.read.path}.{flow_keys.TOPICS.name}"
    tell = account.warn if warning else account.note
    tell(item.read.lines[flow_keys.TOPICS.name], key, text)


def _find_shared_topics(named: Flow, other: Flow) -> list[tuple[str, bool]]:
    """Remote topics that both would write to, from topics that `named` lists by name.

    Each with whether `other` lists its topic by name too.
    """
    found: list[tuple[str, bool]] = []
    theirs_listed = {_parse_literal(item) for item in other.topics.listed}
    before = other.remote_topic(_SAMPLE_TOPIC).removesuffix(_SAMPLE_TOPIC)
    for item in named.topics.listed:
        topic = _parse_literal(item)
        if topic is None or not named.should_replicate_topic(topic):
            continue
        copy = named.remote_topic(topic)
        found.extend(
            (copy, theirs in theirs_listed)
            for theirs in dict.fromkeys((copy, copy.removeprefix(before)))
            if other.remote_topic(theirs) == copy and other.should_replicate_topic(theirs)
        )
    return found


def _find_loops(identity: Sequence[_ValidFlow]) -> Iterator[list[_ValidFlow]]:
    """Every round of flows that leads back to its start, each once, with topics in common.

    Two that lead back to each other are none: each knows what the other wrote (`core/loops`).
    """

    def extend(path: list[_ValidFlow]) -> Iterator[list[_ValidFlow]]:
        if not _may_overlap(path):
            return
        first, last = path[0].flow.source, path[-1].flow.target
        if last == first:
            if len(path) > _MIN_DISTINCT_NAMES:
                yield list(path)
            return
        # Each circle is found from its alphabetically first cluster alone.
        visited = {item.flow.source for item in path} - {first}
        for item in identity:
            target = item.flow.target
            if item.flow.source == last and target >= first and target not in visited:
                yield from extend([*path, item])

    for start in identity:
        if start.flow.target > start.flow.source:
            yield from extend([start])


def _report_loop(account: ProblemCollector, circle: Sequence[_ValidFlow]) -> None:
    last = max(circle, key=lambda item: item.read.lines[flow_keys.SOURCE.name])
    names = ", ".join(item.flow.name for item in circle)
    account.note(
        last.read.lines[flow_keys.POLICY.name],
        f"{last.read.path}.{flow_keys.POLICY.name}",
        f"{names} keep topic names and would mirror each other's copies in a circle",
        given=flow_keys.IDENTITY_POLICY,
        allowed=f"{flow_keys.DEFAULT_POLICY}, or topics listed by name, different ones each way "
        r"(dots as \.)",
    )


def _check_config_sync_both_ways(account: ProblemCollector, identity: Sequence[_ValidFlow]) -> None:
    """Each would write its source's settings over those that people have just changed there."""
    for one, other in itertools.combinations(identity, 2):
        back = (other.flow.source, other.flow.target) == (one.flow.target, one.flow.source)
        follow = one.flow.syncs_topic_configs and other.flow.syncs_topic_configs
        if back and follow and _may_overlap([one, other]):
            account.warn(
                other.read.lines[flow_keys.SYNC_CONFIGS.name],
                f"{other.read.path}.{flow_keys.SYNC_CONFIGS.name}",
                f"{one.flow.name} and {other.flow.name} keep topic names, and topic settings follow"
                " both ways: one that is changed on either side may be changed back. Let them "
                "follow one way only: false in one of the two flows",
            )


def _check_mixed_loops(account: ProblemCollector, sound: Sequence[_ValidFlow]) -> None:
    """One direction keeps names, the other renames: copies of copies, without end."""
    for item in sound:
        if item.flow.policy.renames_topics:
            continue
        for other in sound:
            back = (other.flow.source, other.flow.target) == (item.flow.target, item.flow.source)
            copy = other.flow.remote_topic(_SAMPLE_TOPIC)
            if back and other.flow.policy.renames_topics and item.flow.topics.takes(copy):
                pattern = re.escape(copy.removesuffix(_SAMPLE_TOPIC)) + ".*"
                account.note(
                    item.read.lines[flow_keys.TOPICS.name],
                    f"{item.read.path}.{flow_keys.TOPICS.name}",
                    f"{item.flow.name} keeps topic names and would mirror back what "
                    f"{other.flow.name} writes: add {pattern} to topics.exclude",
                )


def _may_overlap(items: Sequence[_ValidFlow]) -> bool:
    """Could one topic name pass every flow's filter? Only lists of plain names can rule it out."""
    lists = [_parse_literals(item.flow.topics.listed) for item in items]
    names = next((names for names in lists if names is not None), None)
    if names is None:
        return True
    return any(all(item.flow.topics.takes(name) for item in items) for name in names)


def _parse_literals(listed: Sequence[str]) -> list[str] | None:
    """The names that the expressions stand for; None unless each stands for one name."""
    names = [_parse_literal(item) for item in listed]
    found = [name for name in names if name is not None]
    return found if len(found) == len(names) else None


def _parse_literal(expression: str) -> str | None:
    """The one name that the expression stands for; None: it may stand for several."""
    return expression.replace("\\", "") if _LITERAL.fullmatch(expression) else None
