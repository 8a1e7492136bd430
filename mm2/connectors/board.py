"""What runs in this process, for tables, metrics and commands: everything puts its own part here.

Parts are frozen and replaced whole; an unchanged part is the same object. A flow is called as in
`flows.Flow.name`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mm2.connectors import flow_status
from mm2.core.copy import crossing
from mm2.formats import checkpoint

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskShown:
    """One task: `partitions` are all that are assigned to it, those that it must not copy too.

    `slots_missing` and `fencing` as in `flow_status.FlowStatus`. `props`: its configuration.
    `beside_java`: what is less safe while workers of Java run tasks of the flow; "": none do.
    """

    status: flow_status.TaskStatus
    partitions: tuple[flow_status.PartitionStatus, ...] = ()
    slots_missing: int = 0
    fencing: str = ""
    beside_java: str = ""
    props: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorShown:
    """The connector of a flow, on the worker that runs it.

    `planned`: both clusters have answered, and tasks could be handed out; until then `reason` says
    what it waits for. `findings` are partitions that no task is given (their task is -1);
    `copyable` counts those that tasks are given, on whichever worker. `props`: its configuration.
    `warnings` are lines for people: topics are mirrored in spite of that.
    """

    planned: bool
    reason: str = ""
    copyable: int = 0
    props: Mapping[str, str] = field(default_factory=dict, repr=False)
    findings: tuple[flow_status.PartitionStatus, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsFound:
    """Of `known` groups `matching` were asked for; `groups` are the first of these, by name, with
    the checkpoints that stand."""

    known: int
    matching: int
    groups: Mapping[str, Sequence[checkpoint.Checkpoint]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsShown:
    """What a task that makes checkpoints knows of its groups.

    `since_s`: when it began to wait for its first round; `round_s`: when it was through with all of
    them last, could read them all, and the target has acknowledged their checkpoints since, None
    before it was; `written_s`: when the offsets of all of them were last compared and written on
    the target, and none was refused, where it `writes` these. All on the monotonic clock;
    `round_ms` is `round_s` for people, on the wall clock. `groups` have checkpoints. `find` looks
    for so many groups with that text in their name; any thread may ask.
    """

    round_s: float | None
    since_s: float = 0.0
    written_s: float | None = None
    round_ms: int | None = None
    writes: bool = False
    groups: int = 0
    find: Callable[[str, int], GroupsFound] = field(repr=False)

    @property
    def waits(self) -> bool:
        """Is something of it still to be done for the first time?"""
        return self.round_s is None or (self.writes and self.written_s is None)

    @property
    def done_s(self) -> float:
        """When whichever of both is longer ago was done; what waits, since when."""
        times = [self.round_s, *([self.written_s] if self.writes else [])]
        return min(self.since_s if each is None else each for each in times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """`tasks`, `pulses` of their copies, and `groups` by flow and number. A pulse is no part of a
    task: it moves all the time, and a task that rests stays the same object."""

    tasks: Mapping[str, Mapping[int, TaskShown]] = field(default_factory=dict)
    connectors: Mapping[str, ConnectorShown] = field(default_factory=dict)
    groups: Mapping[str, Mapping[int, GroupsShown]] = field(default_factory=dict)
    pulses: Mapping[str, Mapping[int, crossing.Pulse]] = field(default_factory=dict)


class Place(Generic[Part]):
    """One owner's place on the board. Who comes later to the same place has it from then on."""

    def __init__(self, places: _Places[Part], key: Hashable) -> None:
        self._places = places
        self._key = key

    def put(self, part: Part) -> None:
        self._places.put(self._key, part, by=self)

    def leave(self) -> None:
        self._places.leave(self._key, by=self)


class _Places(Generic[Part]):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[Hashable, Place[Part]] = {}
        self._parts: dict[Hashable, Part] = {}

    def take(self, key: Hashable) -> Place[Part]:
        place = Place(self, key)
        with self._lock:
            self._owners[key] = place
        return place

    def put(self, key: Hashable, part: Part, *, by: Place[Part]) -> None:
        with self._lock:
            if self._owners.get(key) is by:
                self._parts[key] = part

    def leave(self, key: Hashable, *, by: Place[Part]) -> None:
        with self._lock:
            if self._owners.get(key) is by:
                del self._owners[key]
                self._parts.pop(key, None)

    def parts(self) -> dict[Hashable, Part]:
        with self._lock:
            return dict(self._parts)


class Board:
    """Safe from any thread. Bounded by what runs: whoever ends leaves its place."""

    def __init__(self) -> None:
        self._tasks: _Places[TaskShown] = _Places()
        self._connectors: _Places[ConnectorShown] = _Places()
        self._groups: _Places[GroupsShown] = _Places()
        self._pulses: _Places[crossing.Pulse] = _Places()

    def task(self, flow: str, number: int) -> Place[TaskShown]:
        return self._tasks.take((flow, number))

    def connector(self, flow: str) -> Place[ConnectorShown]:
        return self._connectors.take(flow)

    def groups(self, flow: str, number: int) -> Place[GroupsShown]:
        """Of the task that makes checkpoints."""
        return self._groups.take((flow, number))

    def pulse(self, flow: str, number: int) -> Place[crossing.Pulse]:
        """Of the task's copy."""
        return self._pulses.take((flow, number))

    def seen(self) -> Snapshot:
        """All parts as they are now."""
        connectors = {str(key): part for key, part in self._connectors.parts().items()}
        return Snapshot(
            tasks=_by_number(self._tasks),
            connectors=connectors,
            groups=_by_number(self._groups),
            pulses=_by_number(self._pulses),
        )


def _by_number(places: _Places[Part]) -> dict[str, dict[int, Part]]:
    found: dict[str, dict[int, Part]] = {}
    for key, part in places.parts().items():
        assert isinstance(key, tuple)
        flow, number = key
        found.setdefault(flow, {})[number] = part
    return found


BOARD = Board()
"""This process's."""
