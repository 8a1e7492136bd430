"""The tables, the comparison and what was expected, in Markdown: whole, and in brief. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.bench import (
    figures,
    follow_report,
    group_report,
    life_report,
    markdown,
    results,
    scrape_report,
    workloads,
)
from tests.bench.contestants import Contestant
from tests.bench.figures import Spread
from tests.bench.promises import Expectation
from tests.bench.results import Copy, Results, Trickle
from tests.bench.workloads import Goal, Measure, Produced, Workload

BEGIN = "<!-- bench:begin -->"
END = "<!-- bench:end -->"

_RELAY_TITLE = "bare relay of the same bytes"
_ONE_HOP_TITLE = "no replication: a single broker"
_FAULT_MARK = " (faulty copy, see below)"
_OTHERS_CORES_MAX = 0.2

_CopyPick = Callable[[Copy], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the figures belong to; `machine` and `versions` are finished lines."""

    machine: str
    versions: str
    rounds: int
    produced: Sequence[Produced]
    contestants: Sequence[Contestant]
    ours: str
    rivals: Sequence[str]
    latency_s: float
    per_second: float


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    pick: _CopyPick


def _mb(value: float | None) -> float | None:
    return None if value is None else value / 1e6


_BYTES = _Column("MB/s", lambda copy: _mb(copy.bytes_s))
_RECORDS = _Column("records/s", lambda copy: copy.records_s)
_CPU = _Column("CPU-s per GB, steady", lambda copy: copy.cpu_steady_s_per_gb)
_FIRST = _Column("first record after, s", lambda copy: copy.first_s)
_COLUMNS = (
    _BYTES,
    _RECORDS,
    _CPU,
    _Column("CPU-s per GB, from start", lambda copy: copy.cpu_total_s_per_gb),
    _Column("peak memory, MB", lambda copy: _mb(copy.peak_bytes)),
    _FIRST,
)
_LATENCIES: Mapping[str, Callable[[Trickle], float | None]] = {
    "p50, ms": lambda trickle: trickle.p50_ms,
    "p99, ms": lambda trickle: trickle.p99_ms,
    "p99.9, ms": lambda trickle: trickle.p999_ms,
}


def brief(setting: Setting, measured: Results) -> str:
    """A line for each workload, latency, groups, and what fell short: for docs/benchmarks.md."""
    parts = [_about(setting)]
    if setting.produced:
        parts += [_in_a_line_each(setting, measured), _latency(setting, measured)]
    parts += [
        life_report.brief(measured),
        follow_report.brief(measured),
        group_report.brief(measured),
        scrape_report.brief(measured),
        _fell_short(setting, measured),
        _doubts(measured),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def render(setting: Setting, measured: Results) -> str:
    """All of it."""
    parts = [_about(setting)]
    parts += [_throughput(setting, measured, each) for each in setting.produced]
    if setting.produced:
        parts.append(_latency(setting, measured))
        parts.append(_comparison(setting, measured))
        parts.append(_expected(setting, measured))
        parts.append(_settings(setting))
    parts += [
        life_report.render(measured),
        follow_report.render(measured),
        group_report.render(measured),
        scrape_report.render(measured),
    ]
    parts.append(_doubts(measured))
    return "\n\n".join(part for part in parts if part) + "\n"


def insert(document: str, text: str) -> str:
    """The document with `text` between the two markers; `ValueError` when it has not both once."""
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        raise ValueError(f"the document must hold {BEGIN} and {END} once each")
    before, _, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{END} stands before {BEGIN}")
    return f"{before}{BEGIN}\n{text.rstrip()}\n{END}{after}"


def expectations(setting: Setting, measured: Results) -> list[Expectation]:
    """What was promised of each workload, and of latency and start, against each rival."""
    found = []
    for rival in setting.rivals if setting.produced else ():
        name = _in_prose(_title(setting, rival))
        for produced in setting.produced:
            workload = produced.workload
            of = _RatioOf(measured, setting.ours, rival, workload.topic)
            found += [_promised(goal, of, name=name, workload=workload) for goal in workload.goals]
        if setting.latency_s:
            p99 = _latency_ratio(measured, rival, setting.ours, "p99, ms")
            found.append(_at_least(3.0, p99, f"lower p99 latency than {name}"))
        first = _RatioOf(measured, setting.ours, rival, None).cheaper(_FIRST)
        found.append(
            Expectation(
                text=f"first record sooner than from {name}",
                actual=first,
                met=first is not None and first > 1.0,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class _RatioOf:
    """How many times better one contestant is than another, on one workload (None: on all)."""

    measured: Results
    ours: str
    rival: str
    topic: str | None

    def faster(self, column: _Column) -> float | None:
        return figures.ratio(self._of(self.ours, column), self._of(self.rival, column))

    def cheaper(self, column: _Column) -> float | None:
        return figures.ratio(self._of(self.rival, column), self._of(self.ours, column))

    def _of(self, contestant: str, column: _Column) -> Spread | None:
        return self.measured.of_copies(contestant, self.topic, column.pick)


def _promised(goal: Goal, of: _RatioOf, *, name: str, workload: Workload) -> Expectation:
    match goal.measure:
        case Measure.BYTES:
            actual, what = of.faster(_BYTES), f"the throughput (MB/s) of {name}"
        case Measure.RECORDS:
            actual, what = of.faster(_RECORDS), f"the throughput (records/s) of {name}"
        case Measure.CPU:
            actual, what = of.cheaper(_CPU), f"less steady-state CPU time than {name}"
    records = workload.title if not workload.floor else f"{_short(workload)} records"
    return _at_least(goal.factor, actual, f"{what} ({records})")


def _at_least(factor: float, actual: float | None, what: str) -> Expectation:
    return Expectation(
        text=f"at least {factor:g}x {what}",
        actual=actual,
        met=actual is not None and actual >= factor,
    )


def _about(setting: Setting) -> str:
    rounds = "one round" if setting.rounds == 1 else f"up to {setting.rounds} alternating rounds"
    told = (
        f"{setting.machine}. {setting.versions}. Figures are medians of {rounds} "
        "(with the range in parentheses if several rounds were run)."
    )
    if not setting.produced:
        return told
    return (
        f"{told} The source broker, the target broker and the replicator share the machine. "
        f"Unless a row states otherwise, the topic has {workloads.PARTITIONS} partitions and no "
        "compression. MB and GB are 10^6 and 10^9 bytes of record values. CPU and memory (PSS) are "
        "totals over all processes of mm2 or of MirrorMaker 2. *Steady* refers to the time from "
        "the first replicated record to the last."
    )


def _throughput(setting: Setting, measured: Results, produced: Produced) -> str:
    workload = produced.workload
    rows = []
    floor = [(results.RELAY, _RELAY_TITLE)] if workload.floor else []
    for key, title in [*_keys(setting), *floor]:
        mark = _FAULT_MARK if measured.faulty(key, workload.topic) else ""
        cells = [
            figures.with_range(measured.of_copies(key, workload.topic, column.pick))
            for column in _COLUMNS
        ]
        rows.append([title + mark, *cells])
    head = (
        f"{workload.title}: {produced.count:,} records, {produced.size / 1e6:,.0f} MB, "
        f"batches of {_size(produced.batch_bytes_mean)} on average"
    )
    return f"**{head}**\n\n" + markdown.table(["", *(column.title for column in _COLUMNS)], rows)


def _in_a_line_each(setting: Setting, measured: Results) -> str:
    """Records/s of everybody, then how many times better ours is than each rival."""
    rivals = [(rival, _title(setting, rival)) for rival in setting.rivals]
    head = ["records/s (medians)", *(title for _, title in _keys(setting))]
    head += [f"faster than {_shortened(title)}" for _, title in rivals]
    head += [f"less CPU than {_shortened(title)}" for _, title in rivals]
    lines = []
    for produced in setting.produced:
        topic = produced.workload.topic
        of = [_RatioOf(measured, setting.ours, rival, topic) for rival, _ in rivals]
        speeds = [measured.of_copies(key, topic, _RECORDS.pick) for key, _ in _keys(setting)]
        cells = ["-" if speed is None else figures.number(speed.median) for speed in speeds]
        cells += [_times(each.faster(_RECORDS)) for each in of]
        cells += [_times(each.cheaper(_CPU)) for each in of]
        lines.append([produced.workload.title, *cells])
    return markdown.table(head, lines)


def _fell_short(setting: Setting, measured: Results) -> str:
    found = [*expectations(setting, measured), *life_report.expectations(measured)]
    found += group_report.expectations(measured)
    short = [each.line for each in found if not each.met]
    if not found:
        return ""
    head = f"Of {len(found)} expectations, {len(found) - len(short)} are met." + (
        " The following expectations are not met:" if short else ""
    )
    return "\n".join([head, "", *short]) if short else head


def _latency(setting: Setting, measured: Results) -> str:
    if not measured.trickles:
        return ""
    rows = []
    for key, title in [*_keys(setting), (results.ONE_HOP, _ONE_HOP_TITLE)]:
        cells = [
            figures.with_range(measured.of_trickles(key, pick)) for pick in _LATENCIES.values()
        ]
        rows.append([title, *cells])
    head = (
        f"Latency from an ordinary producer to an ordinary consumer, at {setting.per_second:g} "
        f"records/s of {workloads.LATENCY_RECORD_BYTES} B, {setting.latency_s:g} s per round"
    )
    return f"**{head}**\n\n" + markdown.table(["", *_LATENCIES], rows)


def _comparison(setting: Setting, measured: Results) -> str:
    """How many times better ours is, by medians."""
    rows = []
    for rival in setting.rivals:
        for produced in setting.produced:
            of = _RatioOf(measured, setting.ours, rival, produced.workload.topic)
            better = [of.faster(column) for column in _COLUMNS[:2]]
            better += [of.cheaper(column) for column in _COLUMNS[2:]]
            name = f"{_title(setting, rival)}, {_short(produced.workload)}"
            rows.append([name, *map(_times, better)])
    if not rows:
        return ""
    head = f"**How many times better `{_title(setting, setting.ours)}` is**"
    return f"{head}\n\n" + markdown.table(["than", *(column.title for column in _COLUMNS)], rows)


def _expected(setting: Setting, measured: Results) -> str:
    lines = [each.line for each in expectations(setting, measured)]
    return "\n".join(["Expected:", "", *lines]) if lines else ""


def _settings(setting: Setting) -> str:
    lines = []
    for each in setting.contestants:
        lines.append(f"{each.title}:")
        lines += [f"  {line}" for line in each.settings]
    return "\n".join(
        ["Settings beside addresses, topics and replication factors:", "", "```", *lines, "```"]
    )


def _doubts(measured: Results) -> str:
    lines = [f"- FAULT: {fault}" for fault in measured.faults()]
    others = measured.others_cores_max()
    if others > _OTHERS_CORES_MAX:
        lines.append(
            f"- Other programs on the machine used up to {figures.number(others)} cores "
            "during a measurement."
        )
    return "\n".join(lines)


def _latency_ratio(measured: Results, of: str, to: str, name: str) -> float | None:
    pick = _LATENCIES[name]
    return figures.ratio(measured.of_trickles(of, pick), measured.of_trickles(to, pick))


def _keys(setting: Setting) -> list[tuple[str, str]]:
    return [(each.key, each.title) for each in setting.contestants]


def _title(setting: Setting, key: str) -> str:
    return next((title for each, title in _keys(setting) if each == key), key)


def _in_prose(title: str) -> str:
    """Of `Java MirrorMaker 2, tuned`: `tuned Java MirrorMaker 2`."""
    program, _, kind = title.partition(", ")
    words = {"tuned": f"tuned {program}", "defaults": f"{program} with default settings"}
    return words.get(kind, title)


def _short(workload: Workload) -> str:
    return workload.title if not workload.floor else workload.title.partition(" records")[0]


def _shortened(title: str) -> str:
    """Of `Java MirrorMaker 2, tuned` only `tuned`."""
    return title.rpartition(", ")[2]


def _size(size: int) -> str:
    return f"{size / 1000:.0f} kB" if size >= 1_000 else f"{size} B"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{figures.number(value)}x"
