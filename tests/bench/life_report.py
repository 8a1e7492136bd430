"""How soon mirrors begin, and how soon they go on when a node is killed, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.bench import contestants, figures, markdown
from tests.bench.figures import Spread
from tests.bench.promises import Expectation
from tests.bench.results import Recovery, Results, Start

_OURS = (contestants.MM2_RUN.key, contestants.MM2_INLINE.key)
_TITLES = {
    each.key: each.title
    for each in (
        contestants.JAVA_DEFAULTS,
        contestants.JAVA_TUNED,
        contestants.MM2_RUN,
        contestants.MM2_INLINE,
    )
}
_STARTS = {
    "cold": "cold: mirror topics do not exist yet",
    "warm": "warm: after a graceful stop",
}
_SETTINGS = {
    "equal": "the same mm2.properties, no rebalance delay, sessions of 10 s",
    "defaults": "defaults: Java waits 5 min for lost nodes, clusters.yaml 5 s",
}
_ABOUT_STARTS = (
    "From the start of the process until a record stands on the target, as the broker's own log "
    "has it; 4 partitions, and brokers that hold back no first member of a group. CPU-seconds are "
    "those of all processes of a contestant. `mm2 run` has run on the machine before."
)
_ABOUT_RECOVERY = (
    "Two nodes share a flow of 8 partitions in 4 tasks, 50 records a second each; the second is "
    "ended by SIGKILL, with all its children. Seconds from the kill until every partition that "
    "stood still brings new records again; sessions of Connect workers last 10 s. Records that "
    "came twice are Java's guarantee, and a fault of ours."
)
_Cell = Callable[[str], Spread | None]


def render(measured: Results) -> str:
    """Both tables, and what was expected; "" if nothing was measured."""
    parts = []
    for kind in _kinds(measured):
        columns = {
            "first record after, s": _of_start(measured, kind, lambda one: one.first_s),
            "in every partition after, s": _of_start(measured, kind, lambda one: one.all_s),
            "CPU-s by then": _of_start(measured, kind, lambda one: one.cpu_s),
            "load of the machine": _of_start(measured, kind, lambda one: one.load),
        }
        parts.append(_table(f"Start, {_STARTS[kind]}", _starters(measured), columns))
    if parts:
        parts.insert(0, _ABOUT_STARTS)
    if measured.recoveries:
        parts.append(_ABOUT_RECOVERY)
    for setting in _settings(measured):
        columns = {
            "all replicated again after, s": _of_recovery(
                measured, setting, lambda one: one.again_s
            ),
            "interrupted partitions": _of_recovery(measured, setting, lambda one: one.stood),
            "duplicated records": _of_recovery(measured, setting, lambda one: one.doubled),
            "load of the machine": _of_recovery(measured, setting, lambda one: one.load),
        }
        who = _recoverers(measured)
        parts.append(_table(f"A node is killed, {_SETTINGS[setting]}", who, columns))
    lines = [each.line for each in expectations(measured)]
    if lines:
        parts.append("\n".join(["Expected:", "", *lines]))
    return "\n\n".join(parts)


def brief(measured: Results) -> str:
    """Seconds, three lines for each kind of start and one for each setting."""
    who = [each for each in _TITLES if each in {*_starters(measured), *_recoverers(measured)}]
    lines = []
    for kind in _kinds(measured):
        first = _of_start(measured, kind, lambda one: one.first_s)
        lines.append([f"first record after a start, {_STARTS[kind]}", *_medians(who, first)])
        cpu = _of_start(measured, kind, lambda one: one.cpu_s)
        lines.append(["CPU seconds until then, all processes", *_medians(who, cpu)])
        load = _of_start(measured, kind, lambda one: one.load)
        lines.append(["load of the machine, mostly from other programs", *_medians(who, load)])
    for setting in _settings(measured):
        again = _of_recovery(measured, setting, lambda one: one.again_s)
        head = f"all partitions are replicated again after a node's SIGKILL; {_SETTINGS[setting]}"
        lines.append([head, *_medians(who, again)])
    titles = ["seconds until … (medians)", *(_TITLES[each] for each in who)]
    return markdown.table(titles, lines) if lines else ""


def expectations(measured: Results) -> list[Expectation]:
    """Ours is no slower than any of Java's, in the same run; nothing of ours comes twice."""
    found = []
    for kind in _kinds(measured):
        first = _of_start(measured, kind, lambda one: one.first_s)
        found += _sooner(f"first record, {kind} start,", first, _starters(measured))
        cpu = _of_start(measured, kind, lambda one: one.cpu_s)
        text = f"first record, {kind} start, for less CPU"
        found += _sooner(text, cpu, _starters(measured), word="with")
    for setting in _settings(measured):
        again = _of_recovery(measured, setting, lambda one: one.again_s)
        text = f"all partitions are replicated again after a node's SIGKILL, {setting} settings,"
        found += _sooner(text, again, _recoverers(measured))
    return found


def _sooner(
    text: str, cell: _Cell, keys: Sequence[str], *, word: str = "sooner from"
) -> list[Expectation]:
    found = []
    for ours in (each for each in keys if each in _OURS):
        for rival in (each for each in keys if each not in _OURS):
            times = figures.ratio(cell(rival), cell(ours))
            found.append(
                Expectation(
                    text=f"{text} {word} {_TITLES[ours]} than {word.split()[-1]} {_TITLES[rival]}",
                    actual=times,
                    met=times is not None and times >= 1.0,
                )
            )
    return found


def _of_start(measured: Results, kind: str, pick: Callable[[Start], float | None]) -> _Cell:
    return lambda key: measured.of_starts(key, kind, pick)


def _of_recovery(
    measured: Results, setting: str, pick: Callable[[Recovery], float | None]
) -> _Cell:
    return lambda key: measured.of_recoveries(key, setting, pick)


def _table(head: str, who: Sequence[str], columns: dict[str, _Cell]) -> str:
    lines = [
        [_TITLES[key], *(figures.with_range(cell(key)) for cell in columns.values())] for key in who
    ]
    return f"**{head}**\n\n" + markdown.table(["", *columns], lines)


def _medians(who: Sequence[str], cell: _Cell) -> list[str]:
    found = [cell(key) for key in who]
    return ["-" if each is None else figures.number(each.median) for each in found]


def _kinds(measured: Results) -> list[str]:
    return [each for each in _STARTS if any(one.kind == each for one in measured.starts)]


def _settings(measured: Results) -> list[str]:
    return [each for each in _SETTINGS if any(one.setting == each for one in measured.recoveries)]


def _starters(measured: Results) -> list[str]:
    return [each for each in _TITLES if any(one.contestant == each for one in measured.starts)]


def _recoverers(measured: Results) -> list[str]:
    return [each for each in _TITLES if any(one.contestant == each for one in measured.recoveries)]
