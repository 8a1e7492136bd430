"""Checks flows against each other: unknown clusters, replication loops, remote topics shared by
several flows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from connect_runtime.config import config_errors
from mm2.config import flow_config_keys
from mm2.config.flows_section import FlowEntry
from mm2.config.yaml_section_reader import ConfigOption, ProblemCollector
from mm2.topics import topic_selection
from mm2.topics.flow_config import Flow
from mm2.topics.replication_policy import DefaultReplicationPolicy

_LITERAL = re.compile(r"(?:[a-zA-Z0-9_-]|\\[.-])+")
_MAX_REPORTED_LOOPS = 20
"""Maximum number of replication loops to report, because a mesh of n clusters has more than n!
loops."""
_MIN_DISTINCT_NAMES = 2
_SAMPLE_TOPIC = "some-topic"


def check_flows(
    collector: ProblemCollector, flows: Sequence[FlowEntry], *, aliases: Collection[str]
) -> None:
    """Report conflicts between flows, and references to unknown clusters. Invalid flows are
    skipped."""
    for item in flows:
        _check_flow_clusters(collector, item, aliases)
        _check_alias_separators(collector, item, aliases)
    _check_duplicate_flows(collector, flows)
    sound = [
        _ValidFlow(item, item.flow)
        for item in flows
        if item.flow is not None and item.enabled and item.source != item.target
    ]
    _check_shared_topic_names(collector, sound)
    identity = [item for item in sound if not item.flow.policy.renames_topics]
    for circle in itertools.islice(_find_flow_loops(identity), _MAX_REPORTED_LOOPS):
        _report_flow_loop(collector, circle)
    _check_bidirectional_config_sync(collector, identity)
    _check_renamed_topic_loops(collector, sound)


@dataclass(frozen=True, slots=True)
class _ValidFlow:
    """A valid flow with its entry in the file."""

    read: FlowEntry
    flow: Flow


def _check_flow_clusters(
    collector: ProblemCollector, item: FlowEntry, aliases: Collection[str]
) -> None:
    for option, alias in (
        (flow_config_keys.SOURCE, item.source),
        (flow_config_keys.TARGET, item.target),
    ):
        if alias is None or alias in aliases:
            continue
        shown = _format_option_value(item, option)
        collector.report_error(
            item.lines[option.name],
            f"{item.path}.{option.name}",
            "is not the alias of a cluster in section clusters",
            given=shown,
            allowed=", ".join(sorted(aliases)) or None,
            nearest=None
            if shown == config_errors.HIDDEN_VALUE
            else config_errors.find_nearest_name(alias, aliases),
        )
    if item.source is not None and item.source == item.target:
        key = f"{item.path}.{flow_config_keys.TARGET.name}"
        text = "is also the source: a flow needs two different clusters"
        shown = _format_option_value(item, flow_config_keys.TARGET)
        collector.report_error(item.lines[flow_config_keys.TARGET.name], key, text, given=shown)


def _format_option_value(item: FlowEntry, option: ConfigOption[str]) -> str:
    """Return the option's value as text, hidden if a config provider resolved it."""
    return str(item.effective[option.name])


def _check_alias_separators(
    collector: ProblemCollector, item: FlowEntry, aliases: Collection[str]
) -> None:
    """Report cluster aliases that contain the separator, because the source of `us.east.orders`
    would be parsed as `us`."""
    flow = item.flow
    if flow is None or not isinstance(flow.policy, DefaultReplicationPolicy):
        return
    for alias in (flow.source, flow.target):
        if alias in aliases and flow.policy.separator in alias:
            collector.report_error(
                item.lines[flow_config_keys.SEPARATOR.name],
                f"{item.path}.{flow_config_keys.SEPARATOR.name}",
                f"occurs in the alias {alias!r}, which makes remote topic names ambiguous",
                given=_format_option_value(item, flow_config_keys.SEPARATOR),
                allowed="a separator that does not occur in any alias",
            )


def _check_duplicate_flows(collector: ProblemCollector, found: Sequence[FlowEntry]) -> None:
    first: dict[tuple[str, str], FlowEntry] = {}
    for item in found:
        if item.source is None or item.target is None:
            continue
        earlier = first.setdefault((item.source, item.target), item)
        if earlier is not item:
            line = earlier.lines[flow_config_keys.SOURCE.name]
            source, target = (
                _format_option_value(item, end)
                for end in (flow_config_keys.SOURCE, flow_config_keys.TARGET)
            )
            text = (
                f"the flow {source}->{target} is already defined on line {line}; put the topics "
                "of both into one flow"
            )
            collector.report_error(item.lines[flow_config_keys.SOURCE.name], item.path, text)


def _check_shared_topic_names(collector: ProblemCollector, sound: Sequence[_ValidFlow]) -> None:
    """Report pairs of flows that would write to the same topics on one target cluster.

    Two flows that keep topic names must list different topics by literal names: patterns cannot
    prove that the topics of the flows differ. If either flow renames topics, only literal names are
    compared, because other collisions are rare. A literal name that the other flow matches only by
    a pattern causes a warning instead of an error.
    """
    for one, other in itertools.combinations(sound, 2):
        if one.flow.target != other.flow.target or one.flow.source == other.flow.source:
            continue
        both, target = f"{other.flow.name} and {one.flow.name}", one.flow.target
        shared = _find_shared_topics(one.flow, other.flow) + _find_shared_topics(
            other.flow, one.flow
        )
        if not (one.flow.policy.renames_topics or other.flow.policy.renames_topics):
            if _may_filters_overlap([one, other]):
                text = (
                    f"{both} keep topic names and could write to the same topics of {target}: "
                    r"list different topics by name in both (dots as \.)"
                )
                _report_shared_topics(collector, other, text)
        elif shared:
            copy, listed = max(shared, key=lambda item: item[1])
            text = (
                f"{both} would both write to {copy} of {target}: exclude the topic in one of them"
            )
            _report_shared_topics(collector, other, text, warning=not listed)


def _report_shared_topics(
    collector: ProblemCollector, item: _ValidFlow, text: str, *, warning: bool = False
) -> None:
    key = f"{item.read.path}.{flow_config_keys.TOPICS.name}"
    report = collector.report_warning if warning else collector.report_error
    report(item.read.lines[flow_config_keys.TOPICS.name], key, text)


def _find_shared_topics(named: Flow, other: Flow) -> list[tuple[str, bool]]:
    """Find the remote topics that both flows would write to, among the literal topic names of the
    flow `named`.

    The boolean of each result is True if `other` also lists the topic by a literal name.
    """
    found: list[tuple[str, bool]] = []
    theirs_listed = {_parse_literal_name(item) for item in other.topics.patterns}
    before = other.format_remote_topic(_SAMPLE_TOPIC).removesuffix(_SAMPLE_TOPIC)
    for item in named.topics.patterns:
        topic = _parse_literal_name(item)
        if topic is None or not topic_selection.should_replicate_topic(named, topic):
            continue
        copy = named.format_remote_topic(topic)
        found.extend(
            (copy, theirs in theirs_listed)
            for theirs in dict.fromkeys((copy, copy.removeprefix(before)))
            if other.format_remote_topic(theirs) == copy
            and topic_selection.should_replicate_topic(other, theirs)
        )
    return found


def _find_flow_loops(identity: Sequence[_ValidFlow]) -> Iterator[list[_ValidFlow]]:
    """Yield each loop of three or more flows that keep topic names and have topics in common.

    Two opposite flows are not a loop, because each flow recognizes the records that the other flow
    wrote.
    """

    def extend_path(path: list[_ValidFlow]) -> Iterator[list[_ValidFlow]]:
        if not _may_filters_overlap(path):
            return
        first, last = path[0].flow.source, path[-1].flow.target
        if last == first:
            if len(path) > _MIN_DISTINCT_NAMES:
                yield list(path)
            return
        # Each loop is found only from its alphabetically first cluster.
        visited = {item.flow.source for item in path} - {first}
        for item in identity:
            target = item.flow.target
            if item.flow.source == last and target >= first and target not in visited:
                yield from extend_path([*path, item])

    for start in identity:
        if start.flow.target > start.flow.source:
            yield from extend_path([start])


def _report_flow_loop(collector: ProblemCollector, circle: Sequence[_ValidFlow]) -> None:
    last = max(circle, key=lambda item: item.read.lines[flow_config_keys.SOURCE.name])
    names = ", ".join(item.flow.name for item in circle)
    collector.report_error(
        last.read.lines[flow_config_keys.POLICY.name],
        f"{last.read.path}.{flow_config_keys.POLICY.name}",
        f"{names} keep topic names and form a replication loop",
        given=flow_config_keys.IDENTITY_POLICY,
        allowed=f"{flow_config_keys.DEFAULT_POLICY}, or different topics listed by name in each "
        r"flow (dots as \.)",
    )


def _check_bidirectional_config_sync(
    collector: ProblemCollector, identity: Sequence[_ValidFlow]
) -> None:
    """Warn about opposite flows that both sync topic configs, because each flow may revert the
    other's changes."""
    for one, other in itertools.combinations(identity, 2):
        back = (other.flow.source, other.flow.target) == (one.flow.target, one.flow.source)
        follow = one.flow.syncs_topic_configs and other.flow.syncs_topic_configs
        if back and follow and _may_filters_overlap([one, other]):
            collector.report_warning(
                other.read.lines[flow_config_keys.SYNC_CONFIGS.name],
                f"{other.read.path}.{flow_config_keys.SYNC_CONFIGS.name}",
                f"{one.flow.name} and {other.flow.name} keep topic names and both sync topic "
                "configs, so a change on either cluster may be reverted: set it to false in one of "
                "the two flows",
            )


def _check_renamed_topic_loops(collector: ProblemCollector, sound: Sequence[_ValidFlow]) -> None:
    """Report pairs of opposite flows that cause an endless loop: one flow keeps topic names, and
    replicates the topics that the other one renames."""
    for item in sound:
        if item.flow.policy.renames_topics:
            continue
        for other in sound:
            back = (other.flow.source, other.flow.target) == (item.flow.target, item.flow.source)
            copy = other.flow.format_remote_topic(_SAMPLE_TOPIC)
            if back and other.flow.policy.renames_topics and item.flow.topics.matches(copy):
                pattern = re.escape(copy.removesuffix(_SAMPLE_TOPIC)) + ".*"
                collector.report_error(
                    item.read.lines[flow_config_keys.TOPICS.name],
                    f"{item.read.path}.{flow_config_keys.TOPICS.name}",
                    f"{item.flow.name} keeps topic names and would replicate the mirror topics of "
                    f"{other.flow.name} back: add {pattern} to topics.exclude",
                )


def _may_filters_overlap(items: Sequence[_ValidFlow]) -> bool:
    """Return True if a topic could match the filters of all flows. Only literal names can rule this
    out."""
    lists = [_parse_literal_names(item.flow.topics.patterns) for item in items]
    names = next((names for names in lists if names is not None), None)
    if names is None:
        return True
    return any(all(item.flow.topics.matches(name) for item in items) for name in names)


def _parse_literal_names(listed: Sequence[str]) -> list[str] | None:
    """Return the literal names of the expressions, or None if an expression can match several
    names."""
    names = [_parse_literal_name(item) for item in listed]
    found = [name for name in names if name is not None]
    return found if len(found) == len(names) else None


def _parse_literal_name(expression: str) -> str | None:
    """Return the literal name of the expression, or None if it can match several names."""
    return expression.replace("\\", "") if _LITERAL.fullmatch(expression) else None
