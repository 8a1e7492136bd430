"""What the cluster gone to holds that never reached the one that is left: records born there,
behind all that the opposite flow has brought over. They are counted, and written to a file.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids
from mm2.app.failover import scans, side_by_side
from mm2.core.failover import seen, whose
from mm2.core.offsets import log_ends, offset_map
from mm2.formats import compression, record_batch, record_sets, records
from mm2.pipeline import fenced_partition, single_questions

EXPORT_VERSION = 1
FIND_S = 120.0
_HEADER_MAX = 4_096
LAST_OFFSETS = 1_000
"""So far back the last record that the opposite flow brought is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Of a partition of the cluster gone to, from where the opposite flow's map ends (`through`) to
    the last stable offset (`end`). `stretches` None: not all could be counted."""

    partition: ids.TopicPartition
    through: int
    end: int
    behind: int
    stretches: tuple[whose.Stretch, ...] | None
    counted: int

    @property
    def first(self) -> int | None:
        """Before it all that was born there has arrived; None: that was not counted."""
        if self.stretches is None:
            return None
        return min((each.first for each in self.stretches), default=self.end)

    def told(self) -> seen.Unreplicated:
        found = self.stretches or ()
        return seen.Unreplicated(
            partition=self.partition,
            start=min((each.first for each in found), default=self.through),
            end=self.end,
            records=None if self.stretches is None else self.counted,
            at_least=self.counted,
            first_ms=min((each.first_ms for each in found), default=None),
            last_ms=max((each.last_ms for each in found), default=None),
        )


class _Arrived(NamedTuple):
    """Records that the opposite flow brought and did not write down; nothing of it stands at
    `behind` or later."""

    records: int
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Where to look, by the partition's name on the cluster gone to. `ours`: ids of the producers
    that bring records there; `theirs`: of those that the opposite flow writes with into `mirror`,
    whose map ends at `mirror_next`."""

    ends: log_ends.Ends
    through: int
    ours: Collection[int]
    mirror: ids.TopicPartition
    mirror_ends: log_ends.Ends | None
    mirror_next: int
    theirs: Collection[int]


Find = Callable[[Mapping[ids.TopicPartition, Begin]], Mapping[ids.TopicPartition, Tail]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finder:
    """Connections of our own to the cluster gone to, and to the one that is left."""

    there: side_by_side.Connect
    here: side_by_side.Connect
    clock: base_clock.Clock

    def find(self, begins: Mapping[ids.TopicPartition, Begin]) -> Mapping[ids.TopicPartition, Tail]:
        """Raises `ConnectError` where one of them does not answer."""

        def arrived(
            questions: single_questions.SingleQuestions, each: ids.TopicPartition
        ) -> _Arrived | None:
            begin = begins[each]
            if begin.mirror_ends is None:
                return _Arrived(0, begin.mirror_next)
            place = _place(questions, begin.mirror, self.clock)
            end = begin.mirror_ends.end
            found = whose.Whose(ours=begin.theirs, start=begin.mirror_next, end=end)
            if not scans.scan(place, found, clock=self.clock):
                return None
            if not found.mine:  # its last record may stand before markers, and before others'
                start = max(begin.mirror_ends.start, begin.mirror_next - LAST_OFFSETS)
                found = whose.Whose(ours=begin.theirs, start=start, end=begin.mirror_next)
                whole = start < begin.mirror_next and scans.scan(place, found, clock=self.clock)
                return _Arrived(0, found.mine_end if whole else begin.mirror_next)
            return _Arrived(found.mine, found.mine_end)

        more = side_by_side.run(
            arrived, begins, connect=self.here, clock=self.clock, timeout_s=FIND_S
        )

        def work(questions: single_questions.SingleQuestions, each: ids.TopicPartition) -> Tail:
            begin = begins[each]
            start = max(begin.through, begin.ends.start)
            found = whose.Whose(ours=begin.ours, start=start, end=begin.ends.end)
            whole = scans.scan(_place(questions, each, self.clock), found, clock=self.clock)
            passed = more[each]
            left = tuple(whose.behind(found.others, passed.records if passed else 0))
            return Tail(
                partition=each,
                through=begin.through,
                end=max(begin.through, begin.ends.end),
                behind=_behind(begin, passed),
                stretches=left if whole else None,
                counted=sum(stretch.records for stretch in left),
            )

        return side_by_side.run(
            work, begins, connect=self.there, clock=self.clock, timeout_s=FIND_S
        )


def _behind(begin: Begin, arrived: _Arrived | None) -> int:
    """Where that could not be seen, records may have arrived up to the log's end."""
    if arrived is not None:
        return arrived.behind
    assert begin.mirror_ends is not None, "it was read in part"
    return max(begin.mirror_next, begin.mirror_ends.end)


def export(
    path: pathlib.Path,
    tails: Collection[Tail],
    *,
    cluster: str,
    move: str,
    connect: side_by_side.Connect,
    clock: base_clock.Clock,
) -> int:
    """Writes these records to a file, a JSON object a line; how many. First a line that says what
    it is: `{"v":1,"cluster":…,"move":…,"records":…}`. Key, value and headers are base64, or null.

    The file is there whole, or not at all, and for its owner alone. One that is there already is
    only written anew where this `move` wrote it. Raises `ConnectError`, also where other records
    are found than were counted.
    """
    count = sum(each.counted for each in tails)
    part = path.with_name(path.name + ".part")
    header = {"v": EXPORT_VERSION, "cluster": cluster, "move": move, "records": count}
    try:
        if path.exists() and not _is_of(path, move):
            raise errors.FatalError(f"{path} is there already: move it away, or name another file")
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file, connect() as questions:
            print(json.dumps(header), file=file)
            written = 0
            for tail in tails:
                for line in _lines(_place(questions, tail.partition, clock), tail, clock):
                    print(json.dumps(line, separators=(",", ":")), file=file)
                    written += 1
            file.flush()
            os.fsync(file.fileno())
        if written != count:
            raise errors.RetriableError(
                f"{path}: {count} records were counted, and {written} found: the others were "
                "deleted meanwhile. Nothing was written; try again"
            )
        part.replace(path)
        _sync(path.parent)
    except OSError as error:
        raise errors.FatalError(f"writing {path}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return written


def _is_of(path: pathlib.Path, move: str) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline(_HEADER_MAX)
    try:
        header = json.loads(first)
    except ValueError:
        return False
    return isinstance(header, dict) and header.get("move") == move


def _sync(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lines(
    place: fenced_partition.FencedPartition, tail: Tail, clock: base_clock.Clock
) -> Iterator[dict[str, Any]]:
    """In one pass, up to the tail's end; a stretch is a batch, or its end."""
    waiting = sorted(tail.stretches or (), reverse=True)
    at = waiting[-1].first if waiting else 0
    still_s = clock.now_s()
    while waiting and at < tail.end:
        before = at
        for header, batch in place.batches(at):
            at = max(at, header.last_offset + 1)
            while waiting and waiting[-1].last < header.base_offset:
                waiting.pop()
            if waiting and waiting[-1].first <= header.last_offset and not header.is_control:
                first, last, *_ = waiting.pop()
                yield from _of_batch(place.partition, header, batch, first=first, last=last)
        if at > before:
            still_s = clock.now_s()
        elif clock.now_s() - still_s > FIND_S:
            raise errors.RetriableError(
                f"{place.partition}: nothing could be read at {at} for {FIND_S:g} s"
            )


def _of_batch(
    partition: ids.TopicPartition,
    header: record_batch.BatchHeader,
    batch: memoryview,
    *,
    first: int,
    last: int,
) -> Iterator[dict[str, Any]]:
    try:
        found = records.open_batch(header, batch)
        for each in found:
            if first <= each.offset <= last:
                fields = records.read_body(each.body)
                yield {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "offset": each.offset,
                    "timestamp_ms": each.timestamp,
                    "key": _text(fields.key),
                    "value": _text(fields.value),
                    "headers": [
                        [name.decode(errors="replace"), _text(value)]
                        for name, value in fields.headers
                    ],
                }
    except (
        records.MalformedRecordsError,
        compression.UnpackError,
        record_sets.DamagedBatchError,
    ) as error:
        raise errors.FatalError(
            f"{partition}: what stands at {header.base_offset} cannot be opened: {error}"
        ) from error


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _place(
    questions: single_questions.SingleQuestions,
    partition: ids.TopicPartition,
    clock: base_clock.Clock,
) -> fenced_partition.FencedPartition:
    return fenced_partition.FencedPartition(questions, partition, transactional_id="", clock=clock)


def begins(
    opposite: offset_map.OffsetMap,
    known: offset_map.OffsetMap,
    *,
    name_here: Callable[[ids.TopicPartition], ids.TopicPartition],
    there: Mapping[ids.TopicPartition, log_ends.Ends],
    here: Mapping[ids.TopicPartition, log_ends.Ends],
) -> dict[ids.TopicPartition, Begin]:
    """Of every partition there that the opposite flow has begun. `name_here`: where it brings it;
    `known`: the map of the flow, by whose ids it writes into topics of one name."""
    found = {}
    for partition, ends in there.items():
        mine = opposite.partition(partition)
        mirror = name_here(partition)
        anchor = mine.anchor
        same = known.partition(mirror).producers if mirror == partition else ()
        found[partition] = Begin(
            ends=ends,
            through=mine.copied_to or 0,
            ours=frozenset(same),
            mirror=mirror,
            mirror_ends=here.get(mirror),
            mirror_next=0 if anchor is None else anchor.segment.target_next,
            theirs=frozenset(mine.producers),
        )
    return found
