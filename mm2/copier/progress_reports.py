"""Progress of each partition that a copy process reports to the driver, in `progress` messages.

A partition's progress report (`PartitionProgressReport`) contains its state, offsets, counters and
record ages. Every report replaces the previous one, so reports may be dropped.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mm2.copier import control_channel_messages
from mm2.copier.control_channel_messages import JsonMessage
from mm2.replication import partition_halt_messages, partition_lag, replication_latency
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.replication_latency import LatencySnapshot, RecordAges

REPORT_INTERVAL_S = 0.5
"""Minimum interval between progress reports of changed partitions."""
CLOCK_SHIFT_WINDOW_S = 600.0
"""Length of each of the two windows in which `ClockShift` looks for the smallest difference between
receive time and send time."""
MAX_CONNECTION_ERRORS = 100
"""Maximum number of unreachable broker addresses that the driver stores per copy process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgressReport:
    """Progress report of one partition: its current state and counters."""

    index: int
    """Index in `CopyConfiguration.partitions`."""
    phase: str
    records: int
    bytes: int
    copied_to: int
    """First source offset that is not yet replicated; -1 while unknown."""
    source_end: int
    """Last stable offset of the source; -1 before the first fetch."""
    log_start: int
    """Start offset of the source's log; -1 before the first fetch."""
    age_ms: int
    """Age of the newest replicated record when the target acknowledged it."""
    oldest_uncopied_ms: int
    """Timestamp of the oldest record that is not replicated yet; -1 if all are replicated."""
    transactional: bool
    reason: str
    cause: str
    reencode_reason: str = ""
    """Reason why the newest batch was re-encoded; "" if the batch was copied byte for byte."""
    fenced: bool = True
    """False if earlier writers of the partition are not fenced, so that delivery is only
    at-least-once."""
    arrival_ages: RecordAges = replication_latency.NO_AGES
    """Ages, at the time of the fetch, of the records that were fetched since the previous
    report."""
    acknowledged_ages: RecordAges = replication_latency.NO_AGES
    """Ages, at the time of the target's acknowledgement, of the records that were acknowledged
    since the previous report."""
    batches: int = 0
    """Number of acknowledged batches."""
    reencoded_batches: int = 0
    """Number of acknowledged batches that were re-encoded."""
    already_stored_records: int = 0
    """Number of records that were already stored on the target and not written again."""
    newest_copied_ms: int = -1
    """Timestamp of the newest replicated record; -1 if no record was replicated."""
    unrecorded_since_s: float | None = None
    """Time since which replicated records have not been covered by a stored resume point
    (`compute_oldest_unrecorded_time_s`), on the monotonic clock of the process that holds this
    report."""


def build_progress_report(index: int, copy: PartitionReplicator) -> PartitionProgressReport:
    """Build the progress report of a partition. The record ages in the report are then cleared in
    the partition's counters, so that each age is reported once."""
    counters = copy.counters
    arrived, stored = counters.take_record_ages()
    return PartitionProgressReport(
        index=index,
        phase=copy.state.phase.value,
        records=counters.records,
        bytes=counters.bytes,
        copied_to=partition_lag.compute_replicated_end_offset(copy),
        source_end=copy.source.end,
        log_start=copy.source.log_start,
        age_ms=counters.age_ms,
        oldest_uncopied_ms=partition_lag.compute_oldest_unreplicated_ms(copy),
        transactional=copy.transaction_mode.is_active,
        reason=copy.state.reason,
        cause=copy.state.halt.cause.value if copy.state.halt is not None else "",
        reencode_reason=counters.reencode_reason,
        fenced=copy.transaction_mode.is_possible,
        arrival_ages=arrived,
        acknowledged_ages=stored,
        batches=counters.batches,
        reencoded_batches=counters.reencoded_batches,
        already_stored_records=counters.already_stored,
        newest_copied_ms=counters.newest_ms,
        unrecorded_since_s=partition_lag.compute_oldest_unrecorded_time_s(copy),
    )


class ClockShift:
    """Estimates the difference between the receiver's and the sender's monotonic clock for one
    channel.

    A delayed message makes the difference look too large. The estimate is therefore the smallest
    difference in the current and the previous window of `CLOCK_SHIFT_WINDOW_S`. The windows are
    limited because the clocks of two machines drift apart.
    """

    def __init__(self) -> None:
        self._since_s = -math.inf
        self._before_s = self._least_s = math.inf

    def record_send_time(self, message: JsonMessage, now_s: float) -> float:
        """Record the send time of a `progress` message received at `now_s`. Return the current
        estimate of the clock difference (receiver minus sender, in seconds)."""
        shift_s = now_s - message["now_s"]
        if not math.isfinite(shift_s):
            raise ValueError("the time is not finite")
        if now_s - self._since_s >= CLOCK_SHIFT_WINDOW_S:
            self._since_s, self._before_s, self._least_s = now_s, self._least_s, math.inf
        self._least_s = min(self._least_s, shift_s)
        return min(self._before_s, self._least_s)


def encode_progress_reports(
    reports: Sequence[PartitionProgressReport],
    *,
    connection_errors: Mapping[str, str],
    latency: LatencySnapshot,
    now_s: float,
) -> JsonMessage:
    """Encode the changed progress reports as a `progress` message.

    `connection_errors` maps unreachable addresses to their errors. `now_s` is the sender's
    monotonic clock, to which all times in the message refer.
    """
    return {
        "type": "progress",
        "now_s": now_s,
        "partitions": [dataclasses.astuple(_encode_report_times(each)) for each in reports],
        "troubles": dict(connection_errors),
        "pulse": list(
            latency._replace(
                replicated_at_s=_encode_time(latency.replicated_at_s),
                caught_up_at_s=_encode_time(latency.caught_up_at_s),
            )
        ),
    }


def decode_latency_snapshot(message: JsonMessage, shift_s: float) -> LatencySnapshot:
    """Decode the copy process's record latencies from a `progress` message. `shift_s` is added to
    the sender's times to convert them to the receiver's clock."""
    counts, sum_ms, ahead_ms, crossed_s, idle_s, life = message["pulse"]
    if len(counts) != replication_latency.BUCKET_COUNT:
        raise ValueError(f"{len(counts)} latency buckets, not {replication_latency.BUCKET_COUNT}")
    return LatencySnapshot(
        counts=tuple(map(control_channel_messages.decode_integer, counts)),
        sum_ms=control_channel_messages.decode_int128(sum_ms),
        ahead_ms=control_channel_messages.decode_integer(ahead_ms),
        replicated_at_s=_decode_time(crossed_s, shift_s),
        caught_up_at_s=_decode_time(idle_s, shift_s),
        incarnation=control_channel_messages.decode_integer(life),
    )


def decode_connection_errors(message: JsonMessage) -> dict[str, str]:
    """Decode the unreachable addresses and their errors from a `progress` message, at most
    `MAX_CONNECTION_ERRORS`."""
    errors = itertools.islice(dict(message["troubles"]).items(), MAX_CONNECTION_ERRORS)
    return {
        control_channel_messages.decode_text(address): control_channel_messages.decode_text(text)
        for address, text in errors
    }


_PHASES = frozenset(each.value for each in PartitionPhase)
_HALT_CAUSES = frozenset(each.value for each in partition_halt_messages.HaltCause) | {""}
_REPORT_FIELDS = [each.name for each in dataclasses.fields(PartitionProgressReport)]
_REPORT_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "str": (str,),
    "bool": (bool,),
    "RecordAges": (list, tuple, RecordAges),
    "float | None": (float, int, str, type(None)),
}
"""Accepted JSON types of the fields of a progress report, by type annotation."""
_REPORT_FIELD_TYPES = [
    _REPORT_TYPES[str(each.type)] for each in dataclasses.fields(PartitionProgressReport)
]


def decode_progress_reports(message: JsonMessage, shift_s: float) -> list[PartitionProgressReport]:
    """Decode the partitions' progress reports in a `progress` message. `shift_s` is added to the
    sender's times to convert them to the receiver's clock."""
    return [
        _shift_report_times(_decode_progress_report(each), shift_s)
        for each in message["partitions"]
    ]


def check_reported_partitions(
    reports: Sequence[PartitionProgressReport], *, partition_count: int
) -> None:
    """Raise `ValueError` if a progress report has an unknown phase, an unknown halt cause, or a
    partition index that the task does not have."""
    for report in reports:
        if not 0 <= report.index < partition_count:
            raise ValueError(f"partition {report.index} of {partition_count}")
        if report.phase not in _PHASES or report.cause not in _HALT_CAUSES:
            raise ValueError("a progress report has an unknown phase or halt cause")


def _encode_report_times(found: PartitionProgressReport) -> PartitionProgressReport:
    if found.unrecorded_since_s is None:
        return found
    return dataclasses.replace(found, unrecorded_since_s=_encode_time(found.unrecorded_since_s))


def _shift_report_times(found: PartitionProgressReport, shift_s: float) -> PartitionProgressReport:
    if found.unrecorded_since_s is None:
        return found
    return dataclasses.replace(
        found, unrecorded_since_s=_decode_time(found.unrecorded_since_s, shift_s)
    )


def _encode_time(time_s: float) -> Any:
    """Encode a time. Infinity is encoded as a string, because JSON has no infinity."""
    return time_s if math.isfinite(time_s) else str(time_s)


def _decode_time(plain: float | str, shift_s: float) -> float:
    moment_s = float(plain) + shift_s
    if math.isnan(moment_s):
        raise ValueError("the time is not a number")
    return moment_s


def _decode_progress_report(values: Sequence[Any]) -> PartitionProgressReport:
    fields = dict(zip(_REPORT_FIELDS, values, strict=True))
    for (name, value), types in zip(fields.items(), _REPORT_FIELD_TYPES, strict=True):
        kind = type(value)
        if kind not in types:
            raise TypeError(f"{name} is a {kind.__name__}")
        if kind is int and value not in control_channel_messages.INT64:
            raise ValueError(f"{name} is not a 64-bit integer")
        if kind is str:
            fields[name] = control_channel_messages.decode_text(value)
        if kind is list or kind is tuple:  # JSON has no named tuples
            fields[name] = _decode_record_ages(value)
    return PartitionProgressReport(**fields)


def _decode_record_ages(values: Sequence[Any]) -> RecordAges:
    records, sum_ms, min_ms, max_ms = values
    return RecordAges(
        records=control_channel_messages.decode_integer(records),
        sum_ms=control_channel_messages.decode_int128(sum_ms),
        min_ms=control_channel_messages.decode_integer(min_ms),
        max_ms=control_channel_messages.decode_integer(max_ms),
    )
