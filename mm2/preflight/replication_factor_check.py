"""Findings about topics that cannot be created because the replication factor exceeds the number of
brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from connect_runtime.base import plurals
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity

_BROKER_DEFAULT_KEY = "default.replication.factor"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationFactorCause:
    """Setting that determines a replication factor."""

    key: str
    """Configuration key, for messages."""
    place: str
    """Location in the configuration where the value can be changed."""
    is_given: bool = True
    """False if the value is a default of MirrorMaker 2. `place` is then the key to add to the
    configuration file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingTopic:
    """A topic that does not exist yet. The name "" represents mirror topics that are created
    later."""

    topic: str
    cluster: str
    """Alias of the cluster on which the topic is created."""
    factor: int
    cause: ReplicationFactorCause
    is_internal: bool = True
    """True if the flow does not start without the topic."""


def build_broker_default_cause(alias: str) -> ReplicationFactorCause:
    """Return the `ReplicationFactorCause` of a topic that is created with the default replication
    factor of the brokers of cluster `alias`."""
    return ReplicationFactorCause(
        key=_BROKER_DEFAULT_KEY, place=f"{_BROKER_DEFAULT_KEY} on the brokers of {alias}"
    )


def check_replication_factors(
    flow: str, wanted: Iterable[MissingTopic], brokers: Mapping[str, int]
) -> Iterator[CheckFinding]:
    """Yield one finding per cause. `brokers` is the number of brokers by cluster alias."""
    by_cause: dict[tuple[object, ...], list[MissingTopic]] = {}
    for each in wanted:
        if each.factor > brokers[each.cluster]:
            cause = (each.cause, each.factor) if each.cause.is_given else ()
            by_cause.setdefault(cause, []).append(each)
    for members in by_cause.values():
        first = members[0]
        clusters = sorted({each.cluster for each in members})
        fewest = min(brokers[alias] for alias in clusters)
        few = " and ".join(
            f"the {plurals.format_count(brokers[alias], 'broker')} of {alias}" for alias in clusters
        )
        if first.cause.is_given:
            text = f"{first.cause.key} {first.factor} exceeds {few}"
            fix = f"set {first.cause.place} to at most {fewest}"
            if first.cause.key != _BROKER_DEFAULT_KEY:
                fix += ", or to -1, the brokers' default"
        else:
            keys = dict.fromkeys(f"{each.cause.key} {each.factor}" for each in members)
            places = dict.fromkeys(f"{each.cause.place} = {fewest}" for each in members)
            text = f"defaults of MirrorMaker 2 exceed {few}: {', '.join(keys)}"
            fix = f"write {', '.join(places)}"
        yield CheckFinding(
            subject=flow,
            area=CheckArea.SETTINGS,
            severity=CheckSeverity.FAILED,
            code="replication-factor",
            text=text,
            affects=tuple(dict.fromkeys(each.topic for each in members if each.topic)),
            effect="these topics cannot be created, so the flow does not start"
            if any(each.is_internal for each in members)
            else "mirror topics cannot be created, so their source topics are not replicated",
            fix=fix,
        )
