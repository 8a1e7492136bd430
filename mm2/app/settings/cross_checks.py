"""Mistakes that no single key shows: flows that name strangers, or run in circles."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from mm2.app.settings import flow_options as options
from mm2.app.settings import flow_reader, problems, reader
from mm2.core import filters, flows, naming

_LITERAL = re.compile(r"(?:[a-zA-Z0-9_-]|\\[.-])+")
_SAMPLE_TOPIC = "some-topic"


def check(
    account: reader.Account, found: Sequence[flow_reader.FlowRead], *, aliases: Collection[str]
) -> None:
    """Notes what is wrong between sections; flows with mistakes of their own are left out."""
    for item in found:
        _check_ends(account, item, aliases)
        _check_separator(account, item, aliases)
    _check_twice(account, found)
    sound = [
        _Sound(item, item.flow)
        for item in found
        if item.flow is not None and item.enabled and item.source != item.target
    ]
    _check_shared_names(account, sound)
    for circle in _circles([item for item in sound if not item.flow.policy.renames_topics]):
        _note_circle(account, circle)
    _check_mixed_circles(account, sound)


@dataclass(frozen=True, slots=True)
class _Sound:
    """A flow without mistakes, and where it stands."""

    read: flow_reader.FlowRead
    flow: flows.Flow


def _check_ends(
    account: reader.Account, item: flow_reader.FlowRead, aliases: Collection[str]
) -> None:
    for option, alias in ((options.SOURCE, item.source), (options.TARGET, item.target)):
        if alias is None or alias in aliases:
            continue
        account.note(
            item.lines[option.name],
            f"{item.path}.{option.name}",
            "names no cluster of the section clusters",
            given=alias,
            allowed=", ".join(sorted(aliases)) or None,
            nearest=problems.nearest(alias, aliases),
        )
    if item.source is not None and item.source == item.target:
        key = f"{item.path}.{options.TARGET.name}"
        text = "is the source itself: a flow needs two clusters"
        account.note(item.lines[options.TARGET.name], key, text, given=item.target)


def _check_separator(
    account: reader.Account, item: flow_reader.FlowRead, aliases: Collection[str]
) -> None:
    """`us.east` and "." make `us.east.orders`, whose source then reads as `us`."""
    flow = item.flow
    if flow is None or not isinstance(flow.policy, naming.DefaultReplicationPolicy):
        return
    for alias in (flow.source, flow.target):
        if alias in aliases and flow.policy.separator in alias:
            account.note(
                item.lines[options.SEPARATOR.name],
                f"{item.path}.{options.SEPARATOR.name}",
                f"occurs in the alias {alias!r}, so names of remote topics cannot be told apart",
                given=flow.policy.separator,
                allowed="a separator that is in no alias",
            )


def _check_twice(account: reader.Account, found: Sequence[flow_reader.FlowRead]) -> None:
    first: dict[tuple[str, str], flow_reader.FlowRead] = {}
    for item in found:
        if item.source is None or item.target is None:
            continue
        earlier = first.setdefault((item.source, item.target), item)
        if earlier is not item:
            line = earlier.lines[options.SOURCE.name]
            text = (
                f"{item.source}->{item.target} is here twice, first in line {line}; "
                "put the topics of both into one flow"
            )
            account.note(item.lines[options.SOURCE.name], item.path, text)


def _check_shared_names(account: reader.Account, sound: Sequence[_Sound]) -> None:
    """Two identity flows from different sources into the same names of one target."""
    identity = [item for item in sound if not item.flow.policy.renames_topics]
    for one, other in itertools.combinations(identity, 2):
        same_target = one.flow.target == other.flow.target
        if same_target and one.flow.source != other.flow.source and _may_overlap([one, other]):
            text = (
                f"{other.flow.name} and {one.flow.name} keep topic names and could write to the "
                f"same topics of {one.flow.target}: list different topics by name in both "
                r"(dots as \.)"
            )
            key = f"{other.read.path}.{options.TOPICS.name}"
            account.note(other.read.lines[options.TOPICS.name], key, text)


def _circles(identity: Sequence[_Sound]) -> Iterator[list[_Sound]]:
    """Every round of flows that leads back to its start, each once, with topics in common."""

    def extend(path: list[_Sound]) -> Iterator[list[_Sound]]:
        last = path[-1].flow.target
        if last == path[0].flow.source:
            if _may_overlap(path):
                yield list(path)
            return
        visited = {item.flow.source for item in path}
        for item in identity:
            if item.flow.source == last and item.flow.target not in visited - {path[0].flow.source}:
                yield from extend([*path, item])

    for start in identity:
        # Each circle is found from its alphabetically first cluster alone.
        for circle in extend([start]):
            if start.flow.source == min(item.flow.source for item in circle):
                yield circle


def _note_circle(account: reader.Account, circle: Sequence[_Sound]) -> None:
    last = max(circle, key=lambda item: item.read.lines[options.SOURCE.name])
    names = ", ".join(item.flow.name for item in circle)
    account.note(
        last.read.lines[options.POLICY.name],
        f"{last.read.path}.{options.POLICY.name}",
        f"{names} keep topic names and would mirror each other's copies in a circle",
        given=options.IDENTITY_POLICY,
        allowed=f"{options.DEFAULT_POLICY}, or topics listed by name, different ones each way "
        r"(dots as \.)",
    )


def _check_mixed_circles(account: reader.Account, sound: Sequence[_Sound]) -> None:
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
                    item.read.lines[options.TOPICS.name],
                    f"{item.read.path}.{options.TOPICS.name}",
                    f"{item.flow.name} keeps topic names and would mirror back what "
                    f"{other.flow.name} writes: add {pattern} to topics.exclude",
                )


def _may_overlap(items: Sequence[_Sound]) -> bool:
    """Could one topic name pass every flow's filter? Only lists of plain names can rule it out."""
    lists = [_literals(item.flow.topics.include) for item in items]
    names = next((names for names in lists if names is not None), None)
    if names is None:
        return True
    return any(all(item.flow.topics.takes(name) for item in items) for name in names)


def _literals(patterns: filters.Patterns) -> list[str] | None:
    """The names that the expressions stand for; None unless each stands for one name."""
    if not all(_LITERAL.fullmatch(item) for item in patterns.items):
        return None
    return [item.replace("\\", "") for item in patterns.items]
