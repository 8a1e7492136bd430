"""What was done of a move, durably: who starts it again after a crash goes on where it was.

A file of JSON lines, appended to and never rewritten. Each begins `{"v":3,"at_ms":…,"what":…`:

    begun      the move's identity: "kind", "from", "to", "flow", "sets_back", "accepted", "groups",
               "export", "hooks", and the ids of both clusters, "from_id" and "to_id"
    accepted   "codes": findings that the operator accepts since it is gone on with
    started    "step"
    group      "group": its positions were written and stand
    done       "step", "detail": what the step found, an object
    failed     "step", "error"
    voided     "step": what it found no longer counts, and it is done again

The last line may be cut off by a crash: it was not written, then.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.base import errors
from mm2.core.failover import orders, steps

VERSION = 3
_YEAR_10000_MS = 253_402_300_800_000


class JournalError(errors.FatalError):
    """The file is not one of ours, of a release that this one does not know, or damaged."""


class What(enum.Enum):
    BEGUN = "begun"
    ACCEPTED = "accepted"
    STARTED = "started"
    GROUP = "group"
    DONE = "done"
    FAILED = "failed"
    VOIDED = "voided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What is moved, and how; it stays the same for the whole move."""

    wanted: orders.Wanted
    flow: str
    hooks: tuple[str, ...] = ()
    clusters: orders.Clusters = field(default_factory=orders.Clusters)

    @property
    def order(self) -> tuple[steps.Step, ...]:
        return steps.order(self.wanted, self.hooks)


@dataclass(slots=True)
class Journal:
    """A fold over the lines. `details` are those of steps that are done, `voided` what such steps
    had found last that are done again, `moved` the groups that were moved."""

    begun: Begun | None = None
    begun_at_ms: int = 0
    details: dict[steps.Step, Mapping[str, Any]] = field(default_factory=dict)
    voided: dict[steps.Step, Mapping[str, Any]] = field(default_factory=dict)
    started_ms: dict[steps.Step, int] = field(default_factory=dict)
    done_ms: dict[steps.Step, int] = field(default_factory=dict)
    failures: list[tuple[steps.Step, str]] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)

    @property
    def next_step(self) -> steps.Step | None:
        """The first that is not done; None: all are. One that was only started is done again."""
        assert self.begun is not None, "nothing was begun"
        return next((step for step in self.begun.order if step not in self.details), None)

    def apply(self, line: Mapping[str, Any]) -> None:
        """Take one line in, as `decode` gives it."""
        at_ms = int(line["at_ms"])
        if not 0 <= at_ms < _YEAR_10000_MS:
            raise ValueError("at_ms is not a valid time")
        match What(line["what"]):
            case What.BEGUN:
                self.begun, self.begun_at_ms = _begun(line), at_ms
            case What.ACCEPTED:
                if self.begun is None:
                    raise ValueError("nothing was begun")
                more = self.begun.wanted.accepted.union(_texts(line["codes"]))
                wanted = dataclasses.replace(self.begun.wanted, accepted=more)
                self.begun = dataclasses.replace(self.begun, wanted=wanted)
            case What.GROUP:
                self.moved.add(str(line["group"]))
            case What.STARTED:
                self.started_ms.setdefault(steps.Step(line["step"]), at_ms)
            case What.DONE:
                step = steps.Step(line["step"])
                self.details[step], self.done_ms[step] = line["detail"], at_ms
            case What.VOIDED:
                step = steps.Step(line["step"])
                self.voided[step] = self.details.pop(step)
                del self.done_ms[step]
            case What.FAILED:
                self.failures.append((steps.Step(line["step"]), str(line["error"])))


def read(text: str) -> Journal:
    """A whole file; what stands behind its last line feed was cut off. Raises `JournalError`."""
    found = Journal()
    whole, _, _ = text.rpartition("\n")
    for number, line in enumerate(whole.split("\n") if whole else (), start=1):
        try:
            found.apply(decode(line))
        except JournalError:
            raise
        except Exception as error:  # whatever stands there: infinite numbers, nesting, other types
            raise JournalError(
                f"line {number} cannot be read ({error}): it is damaged, or not a file of a move"
            ) from error
    if found.begun is None:
        raise JournalError("it says nothing of a move that was begun")
    return found


def decode(line: str) -> Mapping[str, Any]:
    """Raises `ValueError`, and `JournalError` for another version."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise TypeError("it is no object")
    if found.get("v") != VERSION:
        raise JournalError(
            f"it was written by a release that this one does not know (version {found.get('v')})"
        )
    return found


def begun(begin: Begun, *, at_ms: int) -> str:
    """The first line, with its line feed."""
    wanted = begin.wanted
    return _line(
        What.BEGUN,
        at_ms,
        {
            "kind": wanted.kind.value,
            "from": wanted.origin,
            "to": wanted.destination,
            "flow": begin.flow,
            "sets_back": wanted.sets_back,
            "accepted": sorted(wanted.accepted),
            "groups": sorted(wanted.groups),
            "export": wanted.export,
            "hooks": sorted(begin.hooks),
            "from_id": begin.clusters.origin,
            "to_id": begin.clusters.destination,
        },
    )


def accepted(codes: Iterable[str], *, at_ms: int) -> str:
    return _line(What.ACCEPTED, at_ms, {"codes": sorted(codes)})


def group_moved(group: str, *, at_ms: int) -> str:
    return _line(What.GROUP, at_ms, {"group": group})


def started(step: steps.Step, *, at_ms: int) -> str:
    return _line(What.STARTED, at_ms, {"step": step.value})


def done(step: steps.Step, detail: Mapping[str, Any], *, at_ms: int) -> str:
    return _line(What.DONE, at_ms, {"step": step.value, "detail": detail})


def failed(step: steps.Step, error: str, *, at_ms: int) -> str:
    return _line(What.FAILED, at_ms, {"step": step.value, "error": error})


def voided(step: steps.Step, *, at_ms: int) -> str:
    return _line(What.VOIDED, at_ms, {"step": step.value})


def _line(what: What, at_ms: int, more: Mapping[str, Any]) -> str:
    whole = {"v": VERSION, "at_ms": at_ms, "what": what.value, **more}
    return json.dumps(whole, separators=(",", ":")) + "\n"


def _begun(line: Mapping[str, Any]) -> Begun:
    return Begun(
        wanted=orders.Wanted(
            origin=_text(line["from"]),
            destination=_text(line["to"]),
            kind=orders.Kind(line["kind"]),
            sets_back=bool(line["sets_back"]),
            accepted=frozenset(_texts(line["accepted"])),
            groups=frozenset(_texts(line["groups"])),
            export=str(line["export"]),
        ),
        flow=_text(line["flow"]),
        hooks=tuple(_texts(line["hooks"])),
        clusters=orders.Clusters(origin=str(line["from_id"]), destination=str(line["to_id"])),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is not a string")
    return value


def _texts(values: Iterable[object]) -> list[str]:
    return [str(each) for each in values]
