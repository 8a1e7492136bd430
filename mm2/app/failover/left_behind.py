"""What the cluster gone to holds that never reached the one that is left is looked for on real
clusters, and written to a file. `core/failover/tails` says where, and what comes of it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import amounts, errors, ids
from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from mm2.app.failover import crews, scans
from mm2.core.failover import tails
from mm2.formats import compression, record_batch, record_sets, records
from mm2.pipeline import fenced_partition, single_questions

EXPORT_VERSION = 1
FIND_S = 120.0
_HEADER_MAX = 4_096

Find = Callable[[Mapping[ids.TopicPartition, tails.Begin]], Mapping[ids.TopicPartition, tails.Tail]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finder:
    """Who looks on the cluster gone to, and on the one that is left."""

    there: crews.Crew
    here: crews.Crew

    def find(
        self, begins: Mapping[ids.TopicPartition, tails.Begin]
    ) -> Mapping[ids.TopicPartition, tails.Tail]:
        """What does not answer in time is not counted. Raises `ConnectError` for refusals."""

        def arrived(
            questions: single_questions.SingleQuestions,
            each: ids.TopicPartition,
            end: base_deadline.Deadline,
        ) -> tails.Arrived | None:
            return self._arrived(questions, begins[each], end)

        more = self.here.run(arrived, begins, timeout_s=FIND_S).done

        def work(
            questions: single_questions.SingleQuestions,
            each: ids.TopicPartition,
            end: base_deadline.Deadline,
        ) -> tails.Tail:
            found, clock = begins[each].born(), self.there.clock
            place = _place(questions, each, clock)
            whole = scans.scan(place, found, clock=clock, end=end, room=room)
            return begins[each].tail(each, found, more.get(each), whole=whole)

        room = scans.Room()
        told = self.there.run(work, begins, timeout_s=FIND_S).done
        unread = {
            each: begin.tail(each, begin.born(), more.get(each), whole=False)
            for each, begin in begins.items()
            if each not in told
        }
        return {**told, **unread}

    def _arrived(
        self,
        questions: single_questions.SingleQuestions,
        begin: tails.Begin,
        end: base_deadline.Deadline,
    ) -> tails.Arrived | None:
        """None: that could not be seen."""
        found, clock = begin.behind_the_map(), self.here.clock
        if found is None:
            return tails.Arrived(0, begin.mirror_next)
        place = _place(questions, begin.mirror, clock)
        if not scans.scan(place, found, clock=clock, end=end):
            return None
        if found.mine:
            return tails.Arrived(found.mine, found.mine_end)
        before = begin.before_the_map_ends()
        if before is None or not scans.scan(place, before, clock=clock, end=end):
            return tails.Arrived(0, begin.mirror_next)
        return tails.Arrived(0, before.mine_end)


def export(
    path: pathlib.Path,
    found: Collection[tails.Tail],
    *,
    cluster: str,
    move: str,
    connect: crews.Connect,
    clock: base_clock.Clock,
) -> int:
    """Writes these records to a file, a JSON object a line; how many. First a line that says what
    it is: `{"v":1,"cluster":…,"move":…,"records":…}`. Key, value and headers are base64, or null.

    The file is there whole, or not at all, and for its owner alone. One that is there already is
    only written anew where this `move` wrote it. Raises `ConnectError`, also where other records
    are found than were counted.
    """
    count = sum(each.counted for each in found)
    part = path.with_name(path.name + ".part")
    header = {"v": EXPORT_VERSION, "cluster": cluster, "move": move, "records": count}
    try:
        if path.exists() and not _is_of(path, move):
            raise errors.FatalError(f"{path} is there already: move it away, or name another file")
        part.unlink(missing_ok=True)
        with connect() as questions:
            places = [(_place(questions, tail.partition, clock), tail) for tail in found]
            lines = (line for place, tail in places for line in _lines(place, tail, clock))
            _write(part, header, lines)
        written = _lines_of(part) - 1
        if written != count:
            raise errors.RetriableError(
                f"{path}: {amounts.counted(count, 'record', 'were')} counted, and {written} found: "
                "the others were deleted meanwhile. Nothing was written; try again"
            )
        part.replace(path)
        _sync(path.parent)
    except OSError as error:
        raise errors.FatalError(f"writing {path}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return written


def _write(path: pathlib.Path, header: object, lines: Iterator[dict[str, Any]]) -> None:
    """They are on the disk when this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        print(json.dumps(header), file=file)
        for line in lines:
            print(json.dumps(line, separators=(",", ":")), file=file)
        file.flush()
        os.fsync(file.fileno())


def _lines_of(path: pathlib.Path) -> int:
    """What counts is what stands there."""
    with path.open("rb") as file:
        return sum(1 for _ in file)


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
    place: fenced_partition.FencedPartition, tail: tails.Tail, clock: base_clock.Clock
) -> Iterator[dict[str, Any]]:
    """In one pass, up to the tail's end; a stretch begins in a batch, and ends with one."""
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
                first, last, *_ = waiting[-1]
                yield from _of_batch(place.partition, header, batch, first=first, last=last)
                if last <= header.last_offset:
                    waiting.pop()
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
