"""Encodes and decodes the journal of a failover, from which an interrupted failover can be resumed.

The journal is a file of JSON lines, appended to and never rewritten. Each line begins
`{"v":3,"at_ms":…,"what":…`:

    begun      identity of the failover: "kind", "from", "to", "flow", "rewind", "accepted",
               "groups", "export", "hooks", and the cluster ids "from_id", "to_id"
    accepted   "codes": findings that the operator has accepted since the failover was resumed
    started    "step"
    group      "group": its offsets were written and verified
    done       "step", "detail": the step's result, an object
    failed     "step", "error"
    voided     "step": its result is no longer valid, and the step is repeated

A crash may truncate the last line. A truncated line is ignored.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.base.errors import FatalError
from mm2.failover import failover_steps
from mm2.failover.failover_request import ClusterIds, FailoverKind, FailoverRequest
from mm2.failover.failover_steps import FailoverStep

JOURNAL_VERSION = 3
_YEAR_10000_MS = 253_402_300_800_000


class JournalError(FatalError):
    """Raised if the file is not a journal, has an unknown version, or is damaged."""


class JournalEntryKind(enum.Enum):
    """Kind of a journal line: the value of its key `what`."""

    BEGUN = "begun"
    ACCEPTED = "accepted"
    STARTED = "started"
    GROUP = "group"
    DONE = "done"
    FAILED = "failed"
    VOIDED = "voided"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverIdentity:
    """Identity and options of a failover; constant for the whole failover."""

    request: FailoverRequest
    flow: str
    hooks: tuple[str, ...] = ()
    clusters: ClusterIds = field(default_factory=ClusterIds)

    @property
    def steps(self) -> tuple[FailoverStep, ...]:
        """Steps of the failover, in order."""
        return failover_steps.order_steps(self.request, self.hooks)


@dataclass(slots=True)
class FailoverJournal:
    """State of a failover, rebuilt from its journal."""

    identity: FailoverIdentity | None = None
    begun_at_ms: int = 0
    details: dict[FailoverStep, Mapping[str, Any]] = field(default_factory=dict)
    """Results of the completed steps."""
    voided: dict[FailoverStep, Mapping[str, Any]] = field(default_factory=dict)
    """Previous results of the steps that must be repeated."""
    started_ms: dict[FailoverStep, int] = field(default_factory=dict)
    done_ms: dict[FailoverStep, int] = field(default_factory=dict)
    failures: list[tuple[FailoverStep, str]] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    """Groups that were moved."""

    @property
    def next_step(self) -> FailoverStep | None:
        """The first step that is not completed, or None if all are. A step that was started but not
        completed is repeated."""
        assert self.identity is not None, "the failover has not begun"
        return next((step for step in self.identity.steps if step not in self.details), None)

    def apply_entry(self, line: Mapping[str, Any]) -> None:
        """Apply one journal line, decoded by `decode_entry`."""
        at_ms = int(line["at_ms"])
        if not 0 <= at_ms < _YEAR_10000_MS:
            raise ValueError("at_ms is not a valid time")
        match JournalEntryKind(line["what"]):
            case JournalEntryKind.BEGUN:
                self.identity, self.begun_at_ms = _decode_begun_entry(line), at_ms
            case JournalEntryKind.ACCEPTED:
                if self.identity is None:
                    raise ValueError("the failover has not begun")
                more = self.identity.request.accepted.union(_convert_to_strings(line["codes"]))
                wanted = dataclasses.replace(self.identity.request, accepted=more)
                self.identity = dataclasses.replace(self.identity, request=wanted)
            case JournalEntryKind.GROUP:
                self.moved.add(str(line["group"]))
            case JournalEntryKind.STARTED:
                self.started_ms.setdefault(FailoverStep(line["step"]), at_ms)
            case JournalEntryKind.DONE:
                step = FailoverStep(line["step"])
                self.details[step], self.done_ms[step] = line["detail"], at_ms
            case JournalEntryKind.VOIDED:
                step = FailoverStep(line["step"])
                self.voided[step] = self.details.pop(step)
                del self.done_ms[step]
            case JournalEntryKind.FAILED:
                self.failures.append((FailoverStep(line["step"]), str(line["error"])))


def read_journal(text: str) -> FailoverJournal:
    """Read a whole journal; text after the last line feed is ignored. Raises `JournalError` if the
    journal is invalid."""
    found = FailoverJournal()
    whole, _, _ = text.rpartition("\n")
    for number, line in enumerate(whole.split("\n") if whole else (), start=1):
        try:
            found.apply_entry(decode_entry(line))
        except JournalError:
            raise
        except Exception as error:  # damaged lines: infinite numbers, deep nesting, wrong types
            raise JournalError(
                f"line {number} cannot be read ({error}): the file is damaged, or not a journal"
            ) from error
    if found.identity is None:
        raise JournalError("the journal has no line that begins a failover")
    return found


def decode_entry(line: str) -> Mapping[str, Any]:
    """Decode one journal line. Raises `ValueError` if the line is invalid, and `JournalError` for
    an unknown version."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise TypeError("the line is not a JSON object")
    if found.get("v") != JOURNAL_VERSION:
        raise JournalError(f"another release of mm2 wrote it (version {found.get('v')})")
    return found


def encode_begun_entry(begin: FailoverIdentity, *, at_ms: int) -> str:
    """Encode the first journal line, including its line feed."""
    wanted = begin.request
    return _encode_entry(
        JournalEntryKind.BEGUN,
        at_ms,
        {
            "kind": wanted.kind.value,
            "from": wanted.origin,
            "to": wanted.destination,
            "flow": begin.flow,
            "rewind": wanted.rewind,
            "accepted": sorted(wanted.accepted),
            "groups": sorted(wanted.groups),
            "export": wanted.export,
            "hooks": sorted(begin.hooks),
            "from_id": begin.clusters.origin,
            "to_id": begin.clusters.destination,
        },
    )


def encode_accepted_entry(codes: Iterable[str], *, at_ms: int) -> str:
    return _encode_entry(JournalEntryKind.ACCEPTED, at_ms, {"codes": sorted(codes)})


def encode_group_moved_entry(group: str, *, at_ms: int) -> str:
    return _encode_entry(JournalEntryKind.GROUP, at_ms, {"group": group})


def encode_step_started(step: FailoverStep, *, at_ms: int) -> str:
    return _encode_entry(JournalEntryKind.STARTED, at_ms, {"step": step.value})


def encode_step_done(step: FailoverStep, detail: Mapping[str, Any], *, at_ms: int) -> str:
    return _encode_entry(JournalEntryKind.DONE, at_ms, {"step": step.value, "detail": detail})


def encode_step_failed(step: FailoverStep, error: str, *, at_ms: int) -> str:
    return _encode_entry(JournalEntryKind.FAILED, at_ms, {"step": step.value, "error": error})


def encode_step_voided(step: FailoverStep, *, at_ms: int) -> str:
    return _encode_entry(JournalEntryKind.VOIDED, at_ms, {"step": step.value})


def _encode_entry(what: JournalEntryKind, at_ms: int, more: Mapping[str, Any]) -> str:
    whole = {"v": JOURNAL_VERSION, "at_ms": at_ms, "what": what.value, **more}
    return json.dumps(whole, separators=(",", ":")) + "\n"


def _decode_begun_entry(line: Mapping[str, Any]) -> FailoverIdentity:
    return FailoverIdentity(
        request=FailoverRequest(
            origin=_require_string(line["from"]),
            destination=_require_string(line["to"]),
            kind=FailoverKind(line["kind"]),
            rewind=bool(line["rewind"]),
            accepted=frozenset(_convert_to_strings(line["accepted"])),
            groups=frozenset(_convert_to_strings(line["groups"])),
            export=str(line["export"]),
        ),
        flow=_require_string(line["flow"]),
        hooks=tuple(_convert_to_strings(line["hooks"])),
        clusters=ClusterIds(origin=str(line["from_id"]), destination=str(line["to_id"])),
    )


def _require_string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a value is not a string but {type(value).__name__}")
    return value


def _convert_to_strings(values: Iterable[object]) -> list[str]:
    return [str(each) for each in values]
