"""The live table: what is shown, and how it looks.

`choose` decides which topics fit (pure); `render` makes them a rich renderable. Where not all fit,
the worst are shown and the others counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box, console, progress_bar, table, text

from connect_runtime.base import amounts, terminal_escape
from mm2.app import figures, overview, progress
from mm2.connectors import flow_status

STANDSTILLS_MAX = 3
"""So many standstills are explained in full below the table."""
ROWS_MIN = 3
WIDE = 100
"""Columns from which on all of them are shown."""

_FRAME_LINES = 4
_LAG_COLUMNS = ("LAG\nRECORDS", "LAG\nTIME")
_STATE_STYLES = {
    "fenced": "bold red",
    "stopped": "bold red",
    "waiting": "yellow",
    "taking": "yellow",
    overview.PAUSED: "yellow",
    "closed": "dim",
    "copying": "green",
}
_FLOW_STYLES = {
    flow_status.FlowState.RUNNING: "green",
    flow_status.FlowState.FAILED: "bold red",
    flow_status.FlowState.PLANNING: "yellow",
    flow_status.FlowState.STOPPING: "yellow",
    flow_status.FlowState.STOPPED: "dim",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Everything that one picture shows. `notes` are lines above all flows."""

    seen: overview.Overview
    notes: tuple[str, ...] = ()
    progress: progress.Snapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The rows that fit, and how many do not."""

    rows: tuple[overview.TopicRow, ...]
    hidden: int


def choose(rows: Sequence[overview.TopicRow], room: int) -> Choice:
    """In order of names when there is room for all, else the worst first."""
    room = max(room, ROWS_MIN)
    if len(rows) <= room:
        return Choice(rows=tuple(rows), hidden=0)
    worst = sorted(rows, key=lambda row: row.badness)
    return Choice(rows=tuple(worst[:room]), hidden=len(rows) - room)


def room_for_rows(frame: Frame, *, width: int, height: int) -> int:
    """How many topics a terminal of so many columns and lines has room for."""
    other = _FRAME_LINES + len(frame.notes)
    for row in frame.seen.flows:
        other += _lines(f"{row.flow}  {flow_line(row)}", width)
    other += sum(_lines(each, width) for each in _explain(frame.seen))
    return height - other - (0 if frame.progress is None else 2)


def _lines(words: str, width: int) -> int:
    """Wrapping at words may take a line more than the length says."""
    return 1 if len(words) <= width else len(words) // width + 2


def flow_line(row: overview.FlowRow) -> str:
    """All that a flow has to say in one line, for the table and for logs."""
    if row.state is flow_status.FlowState.PLANNING:
        return f"{row.state.value}: {row.reason}"
    if row.state in (flow_status.FlowState.FAILED, flow_status.FlowState.STOPPED):
        return f"{row.state.value}: {row.reason}, {_copied(row)}"
    parts = [row.state.value, *_held(row), *_tasks(row)]
    if row.slots_missing:
        parts.append(f"needs {amounts.counted(row.slots_missing, 'more Spark slot')}")
    if not row.partitions:
        return ", ".join([*parts, row.unreachable or row.reason or _nothing_here(row)])
    parts.append(f"{amounts.counted(row.topics, 'topic')}, {_partitions(row)}")
    parts.append(f"{figures.count(row.rate.records_s)} records/s")
    parts.append(f"{figures.megabytes(row.rate.bytes_s)} MB/s")
    parts.append(_lag(row))
    return ", ".join(parts)


def _lag(row: overview.FlowRow) -> str:
    """With the cluster that does not answer: it is why the lag is unknown, or not the whole."""
    if row.unreachable and row.lag.records is None:
        return f"lag unknown: {row.unreachable}"
    lag = f"lag {lag_in_records(row.lag)}, {lag_seconds(row.lag)}"
    return f"{lag}; {row.unreachable}" if row.unreachable else lag


def _held(row: overview.FlowRow) -> list[str]:
    return ([overview.PAUSED] if row.paused else []) + overview.throttled(row.throttle)


def _copied(row: overview.FlowRow) -> str:
    return f"{amounts.counted(row.records, 'record')} ({figures.size(row.bytes)}) copied"


def _tasks(row: overview.FlowRow) -> list[str]:
    waits = "waiting for a slot" if row.engine_ready else "waiting for Spark to start"
    words = {
        flow_status.TaskState.RUNNING: "running",
        flow_status.TaskState.WAITING_FOR_SLOT: waits,
    }
    return [
        f"{amounts.counted(number, 'task')} {words.get(state, state.value.lower())}"
        for state, number in sorted(row.tasks.items(), key=_task_state)
    ]


def _task_state(item: tuple[flow_status.TaskState, int]) -> int:
    return list(flow_status.TaskState).index(item[0])


def _nothing_here(row: overview.FlowRow) -> str:
    if row.empty:
        return "no topic matches"
    return f"{amounts.counted(row.elsewhere, 'partition')}, none of them here"


def _partitions(row: overview.FlowRow) -> str:
    stopped = f" ({row.stopped} in error)" if row.stopped else ""
    return f"{amounts.counted(row.partitions, 'partition')}{stopped}"


def lag_records(lag: overview.Lag) -> str:
    """`>` where some partitions have not told theirs."""
    if lag.records is None:
        return figures.UNKNOWN
    return f"{'' if lag.complete else '>'}{figures.count(lag.records)}"


def lag_in_records(lag: overview.Lag) -> str:
    """`lag_records` in words."""
    if lag.records is None:
        return f"{figures.UNKNOWN} records"
    return f"{'' if lag.complete else '>'}{amounts.counted(lag.records, 'record')}"


def lag_seconds(lag: overview.Lag) -> str:
    """As `lag_records`, of the oldest record that is not copied."""
    if lag.seconds is None:
        return figures.UNKNOWN
    return f"{'' if lag.complete else '>'}{figures.duration(lag.seconds)}"


def path(row: overview.TopicRow) -> str:
    """How its batches go: as they are, opened, in transactions; how many, unless it is all; and how
    fast at most."""
    ways = {
        "opened": sum(row.opened.values()),
        "in transactions": row.transactional,
        "at least once": row.unfenced,
    }
    said = [
        way if count == row.partitions else f"{count} {way}" for way, count in ways.items() if count
    ]
    if max(ways["opened"], ways["in transactions"]) < row.partitions:
        said.insert(0, "pass-through")
    return ", ".join([*said, *overview.throttled(row.throttle)])


def state(row: overview.TopicRow) -> str:
    """In capitals, with how many partitions are in it unless all are, and why."""
    share = "" if row.in_state == row.partitions else f" {row.in_state}/{row.partitions}"
    reason = f": {row.reason}" if row.reason else ""
    return f"{row.state.upper()}{share}{reason}"


def render(frame: Frame, *, width: int, height: int) -> console.Group:
    """For a terminal of so many columns and lines."""
    parts: list[console.RenderableType] = [_text(note) for note in frame.notes]
    for row in frame.seen.flows:
        line = text.Text.assemble(
            (row.flow, "bold"), "  ", (terminal_escape.escape(flow_line(row)), _flow_style(row))
        )
        parts.append(line)
    if frame.seen.topics:
        room = room_for_rows(frame, width=width, height=height)
        parts.append(_topics(frame, choose(frame.seen.topics, room), wide=width >= WIDE))
    parts.extend(_text(words, style="red") for words in _explain(frame.seen))
    if frame.progress is not None:
        parts.append(_bar(frame.progress, wide=width >= WIDE))
    return console.Group(*parts)


def _flow_style(row: overview.FlowRow) -> str:
    if row.unreachable:
        return "bold red"
    if row.stopped or row.slots_missing:
        return "yellow"
    return _FLOW_STYLES[row.state]


def _topics(frame: Frame, chosen: Choice, *, wide: bool) -> console.RenderableType:
    several = len(frame.seen.flows) > 1
    made = table.Table(
        box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, expand=True, show_edge=False
    )
    if several:
        made.add_column("FLOW", no_wrap=True)
    made.add_column("TOPIC", no_wrap=True, overflow="ellipsis", ratio=3, min_width=16)
    for name in (*(["PARTITIONS"] if wide else []), "RECORDS/S", "MB/S", *_LAG_COLUMNS):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("PATH", no_wrap=True)
    made.add_column("STATE", no_wrap=True, overflow="ellipsis", ratio=4, min_width=8)
    for row in chosen.rows:
        cells = _cells(row)
        made.add_row(*([row.flow] if several else []), cells[0], *cells[1 if wide else 2 :])
    if not chosen.hidden:
        return made
    more = _text(f"… and {amounts.counted(chosen.hidden, 'more topic')}", style="dim")
    return console.Group(made, more)


def _text(words: str, *, style: str = "") -> text.Text:
    return text.Text(terminal_escape.escape(words), style=style)


def _cells(row: overview.TopicRow) -> list[text.Text]:
    return [
        _text(row.topic),
        _text(str(row.partitions)),
        _text(figures.count(row.rate.records_s)),
        _text(figures.megabytes(row.rate.bytes_s)),
        _text(lag_records(row.lag)),
        _text(lag_seconds(row.lag)),
        _text(path(row)),
        _text(state(row), style=_STATE_STYLES[row.state]),
    ]


def _causes(seen: overview.Overview) -> list[tuple[str, int]]:
    """(What stands still and why, how many partitions more say the same), the first of each kind.

    Partitions of one topic with the same cause are explained once.
    """
    found: dict[tuple[str, str, str], tuple[str, int]] = {}
    for each in seen.standstills:
        key = (each.flow, each.partition.topic, each.cause)
        known = found.get(key)
        found[key] = (each.told, 0) if known is None else (known[0], known[1] + 1)
    return list(found.values())


def _explain(seen: overview.Overview) -> list[str]:
    causes = _causes(seen)
    lines = []
    for words, others in causes[:STANDSTILLS_MAX]:
        more = f" (and {amounts.counted(others, 'more partition')})" if others else ""
        lines.append(f"{words}{more}")
    hidden = len(causes) - STANDSTILLS_MAX
    if hidden > 0:
        lines.append(f"… and {amounts.counted(hidden, 'more reason')}")
    return lines


def _bar(seen: progress.Snapshot, *, wide: bool) -> console.RenderableType:
    made = table.Table.grid(padding=(0, 1))
    made.add_row(
        progress_bar.ProgressBar(total=1.0, completed=seen.fraction, width=40 if wide else 15),
        _text(progress_line(seen)),
    )
    return made


def progress_line(seen: progress.Snapshot) -> str:
    """`62 %, 3 of 8 partitions, 1,234 of 2,000 records, 12 s left`."""
    parts = [
        f"{int(seen.fraction * 100)} %",
        f"{seen.done:,} of {amounts.counted(seen.partitions, 'partition')}",
        f"{seen.copied:,} of {amounts.counted(seen.total, 'record')}",
    ]
    if seen.eta_s is not None:
        parts.append(f"{figures.duration(seen.eta_s)} left")
    return ", ".join(parts)
