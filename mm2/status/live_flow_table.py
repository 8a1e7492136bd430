"""Renders the live table of `mm2 run` with `rich`.

`select_rows` selects the topics that fit (pure); `render_table` builds the renderable. If some
topics do not fit, those in the worst state are shown and the rest is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box, console, progress_bar, table, text

from connect_runtime.base import plurals, terminal_escape
from mm2 import text_format
from mm2.connectors.status_registry import FlowState, TaskState
from mm2.status import topic_rows
from mm2.status.catch_up_progress import CatchUpSnapshot
from mm2.status.topic_rows import FlowRow, FlowsOverview, LagTotal, TopicRow

EXPLAINED_HALTS_MAX = 3
"""Maximum number of halts that are explained below the table."""
TABLE_ROWS_MIN = 3
WIDE_TABLE_COLUMNS = 100
"""Minimum terminal width at which all columns are shown."""

_FRAME_LINES = 4
_LAG_COLUMNS = ("LAG\nRECORDS", "LAG\nTIME")
_STATE_STYLES = {
    "fenced": "bold red",
    "halted": "bold red",
    "waiting": "yellow",
    "acquiring": "yellow",
    topic_rows.PAUSED_STATE: "yellow",
    "closed": "dim",
    "copying": "green",
}
_FLOW_STYLES = {
    FlowState.RUNNING: "green",
    FlowState.FAILED: "bold red",
    FlowState.PLANNING: "yellow",
    FlowState.STOPPING: "yellow",
    FlowState.STOPPED: "dim",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTableContent:
    """Content of the live table. `notes` are lines that are shown above the table."""

    overview: FlowsOverview
    notes: tuple[str, ...] = ()
    progress: CatchUpSnapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """Rows that fit on the terminal, and the number of hidden rows."""

    rows: tuple[TopicRow, ...]
    hidden: int


def select_rows(rows: Sequence[TopicRow], room: int) -> RowSelection:
    """Select the topic rows to show. If all rows fit on `room` lines, they are returned in their
    given order; otherwise the rows in the worst states are selected, the worst first."""
    room = max(room, TABLE_ROWS_MIN)
    if len(rows) <= room:
        return RowSelection(rows=tuple(rows), hidden=0)
    worst = sorted(rows, key=lambda row: row.sort_key)
    return RowSelection(rows=tuple(worst[:room]), hidden=len(rows) - room)


def count_rows_that_fit(frame: LiveTableContent, *, width: int, height: int) -> int:
    """Return the number of topic rows that fit on a terminal of this size."""
    other = _FRAME_LINES + len(frame.notes)
    for row in frame.overview.flows:
        other += _count_wrapped_lines(f"{row.flow}  {describe_flow(row)}", width)
    other += sum(_count_wrapped_lines(each, width) for each in _explain_halts(frame.overview))
    return height - other - (0 if frame.progress is None else 2)


def _count_wrapped_lines(words: str, width: int) -> int:
    """Return the maximum number of terminal lines that the text `words` occupies. Wrapping at word
    boundaries may need one more line than wrapping at exactly `width` characters."""
    return 1 if len(words) <= width else len(words) // width + 2


def describe_flow(row: FlowRow) -> str:
    """Describe a flow in one line, for the table and for logs."""
    if row.state is FlowState.PLANNING:
        return f"{row.state.value}: {row.reason}"
    if row.state in (FlowState.FAILED, FlowState.STOPPED):
        return f"{row.state.value}: {row.reason}, {_describe_copied_records(row)}"
    parts = [row.state.value, *_describe_overrides(row), *_describe_tasks(row)]
    if row.slots_missing:
        parts.append(f"needs {plurals.format_count(row.slots_missing, 'more Spark slot')}")
    if not row.partitions:
        return ", ".join([*parts, row.unreachable or row.reason or _describe_empty_node(row)])
    parts.append(f"{plurals.format_count(row.topics, 'topic')}, {_describe_partitions(row)}")
    parts.append(f"{text_format.format_count(row.rate.records_s)} records/s")
    parts.append(f"{text_format.format_megabytes(row.rate.bytes_s)} MB/s")
    parts.append(_describe_lag(row))
    return ", ".join(parts)


def _describe_lag(row: FlowRow) -> str:
    """Describe the lag. If the lag is unknown or partial, name the unreachable cluster as the
    reason."""
    if row.unreachable and row.lag.records is None:
        return f"lag unknown: {row.unreachable}"
    lag = f"lag {describe_lag_records(row.lag)}, {format_lag_seconds(row.lag)}"
    return f"{lag}; {row.unreachable}" if row.unreachable else lag


def _describe_overrides(row: FlowRow) -> list[str]:
    return ([topic_rows.PAUSED_STATE] if row.paused else []) + topic_rows.describe_throttle(
        row.throttle
    )


def _describe_copied_records(row: FlowRow) -> str:
    records = plurals.format_count(row.records, "record")
    return f"{records} ({text_format.format_size(row.bytes)}) replicated"


def _describe_tasks(row: FlowRow) -> list[str]:
    waits = "waiting for a slot" if row.engine_ready else "waiting for Spark to start"
    words = {
        TaskState.RUNNING: "running",
        TaskState.WAITING_FOR_SLOT: waits,
    }
    return [
        f"{plurals.format_count(number, 'task')} {words.get(state, state.value.lower())}"
        for state, number in sorted(row.tasks.items(), key=_get_task_state_order)
    ]


def _get_task_state_order(item: tuple[TaskState, int]) -> int:
    return list(TaskState).index(item[0])


def _describe_empty_node(row: FlowRow) -> str:
    if row.is_empty:
        return "no topic matches"
    return f"{plurals.format_count(row.remote_partitions, 'partition')}, none of them here"


def _describe_partitions(row: FlowRow) -> str:
    stopped = f" ({row.stopped} halted)" if row.stopped else ""
    return f"{plurals.format_count(row.partitions, 'partition')}{stopped}"


def format_lag_records(lag: LagTotal) -> str:
    """Format the lag in records for a table column; `>` marks a lower bound."""
    if lag.records is None:
        return text_format.UNKNOWN_NUMBER
    return f"{'' if lag.complete else '>'}{text_format.format_count(lag.records)}"


def describe_lag_records(lag: LagTotal) -> str:
    """Format the lag as `format_lag_records` does, followed by the unit."""
    if lag.records is None:
        return f"{text_format.UNKNOWN_NUMBER} records"
    return f"{'' if lag.complete else '>'}{plurals.format_count(lag.records, 'record')}"


def format_lag_seconds(lag: LagTotal) -> str:
    """Format the age of the oldest unreplicated record for a table column; `>` marks a lower
    bound."""
    if lag.seconds is None:
        return text_format.UNKNOWN_NUMBER
    return f"{'' if lag.complete else '>'}{text_format.format_duration(lag.seconds)}"


def describe_replication_path(row: TopicRow) -> str:
    """Describe the path that the topic's batches take, and the rate limit. If the partitions use
    different paths, include the number of partitions for each path."""
    ways = {
        "re-encoded": sum(row.reencoded.values()),
        "in transactions": row.transactional,
        "at least once": row.unfenced,
    }
    said = [
        way if count == row.partitions else f"{count} {way}" for way, count in ways.items() if count
    ]
    if max(ways["re-encoded"], ways["in transactions"]) < row.partitions:
        said.insert(0, "pass-through")
    return ", ".join([*said, *topic_rows.describe_throttle(row.throttle)])


def describe_topic_state(row: TopicRow) -> str:
    """Describe the topic's state in capitals, with the reason. If its partitions have different
    states, the state of the worst partition is described, with the number of partitions in that
    state."""
    share = "" if row.in_state == row.partitions else f" {row.in_state}/{row.partitions}"
    reason = f": {row.reason}" if row.reason else ""
    return f"{row.state.upper()}{share}{reason}"


def render_table(frame: LiveTableContent, *, width: int, height: int) -> console.Group:
    """Render the live table for a terminal of this size."""
    parts: list[console.RenderableType] = [_make_styled_text(note) for note in frame.notes]
    for row in frame.overview.flows:
        line = text.Text.assemble(
            (row.flow, "bold"),
            "  ",
            (terminal_escape.escape_unprintable(describe_flow(row)), _find_flow_style(row)),
        )
        parts.append(line)
    if frame.overview.topics:
        room = count_rows_that_fit(frame, width=width, height=height)
        parts.append(
            _make_topic_table(
                frame, select_rows(frame.overview.topics, room), wide=width >= WIDE_TABLE_COLUMNS
            )
        )
    parts.extend(_make_styled_text(words, style="red") for words in _explain_halts(frame.overview))
    if frame.progress is not None:
        parts.append(_make_progress_bar(frame.progress, wide=width >= WIDE_TABLE_COLUMNS))
    return console.Group(*parts)


def _find_flow_style(row: FlowRow) -> str:
    if row.unreachable:
        return "bold red"
    if row.stopped or row.slots_missing:
        return "yellow"
    return _FLOW_STYLES[row.state]


def _make_topic_table(
    frame: LiveTableContent, chosen: RowSelection, *, wide: bool
) -> console.RenderableType:
    several = len(frame.overview.flows) > 1
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
        cells = _make_topic_cells(row)
        made.add_row(*([row.flow] if several else []), cells[0], *cells[1 if wide else 2 :])
    if not chosen.hidden:
        return made
    more = _make_styled_text(
        f"… and {plurals.format_count(chosen.hidden, 'more topic')}", style="dim"
    )
    return console.Group(made, more)


def _make_styled_text(words: str, *, style: str = "") -> text.Text:
    return text.Text(terminal_escape.escape_unprintable(words), style=style)


def _make_topic_cells(row: TopicRow) -> list[text.Text]:
    return [
        _make_styled_text(row.topic),
        _make_styled_text(str(row.partitions)),
        _make_styled_text(text_format.format_count(row.rate.records_s)),
        _make_styled_text(text_format.format_megabytes(row.rate.bytes_s)),
        _make_styled_text(format_lag_records(row.lag)),
        _make_styled_text(format_lag_seconds(row.lag)),
        _make_styled_text(describe_replication_path(row)),
        _make_styled_text(describe_topic_state(row), style=_STATE_STYLES[row.state]),
    ]


def _group_halts(seen: FlowsOverview) -> list[tuple[str, int]]:
    """Group halts by flow, topic and cause. For each group, return the description of its first
    halt and the number of its other partitions."""
    found: dict[tuple[str, str, str], tuple[str, int]] = {}
    for each in seen.halts:
        key = (each.flow, each.partition.topic, each.cause)
        known = found.get(key)
        found[key] = (each.describe, 0) if known is None else (known[0], known[1] + 1)
    return list(found.values())


def _explain_halts(seen: FlowsOverview) -> list[str]:
    causes = _group_halts(seen)
    lines = []
    for words, others in causes[:EXPLAINED_HALTS_MAX]:
        more = f" (and {plurals.format_count(others, 'more partition')})" if others else ""
        lines.append(f"{words}{more}")
    hidden = len(causes) - EXPLAINED_HALTS_MAX
    if hidden > 0:
        lines.append(f"… and {plurals.format_count(hidden, 'more reason')}")
    return lines


def _make_progress_bar(seen: CatchUpSnapshot, *, wide: bool) -> console.RenderableType:
    made = table.Table.grid(padding=(0, 1))
    made.add_row(
        progress_bar.ProgressBar(total=1.0, completed=seen.fraction, width=40 if wide else 15),
        _make_styled_text(describe_progress(seen)),
    )
    return made


def describe_progress(seen: CatchUpSnapshot) -> str:
    """Describe the catch-up progress, for example `62 %, 3 of 8 partitions, 1,234 of 2,000 records,
    12 s left`."""
    parts = [
        f"{int(seen.fraction * 100)} %",
        f"{seen.done:,} of {plurals.format_count(seen.partitions, 'partition')}",
        f"{seen.copied:,} of {plurals.format_count(seen.total, 'record')}",
    ]
    if seen.eta_s is not None:
        parts.append(f"{text_format.format_duration(seen.eta_s)} left")
    return ", ".join(parts)
