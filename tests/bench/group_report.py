"""What groups of Connect workers made of comings and goings, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench import figures, markdown, results
from tests.bench.figures import Spread
from tests.bench.promises import Expectation
from tests.bench.results import Rebalance, Results

TITLES = {
    results.CONNECT_OF["java"]: "Java Connect",
    results.CONNECT_OF["ours"]: "connect_runtime",
}
_OURS = results.CONNECT_OF["ours"]
_SOON_S = 10.0
_CHANGES = {
    "add": "a third worker joins",
    "kill": "one of three workers is killed",
    "bounce": "one of three workers is restarted",
}
_Pick = Callable[[Rebalance], float | None]
_COLUMNS: dict[str, _Pick] = {
    "all run again after, s": lambda one: one.all_run_s,
    "downtime of all tasks, s": lambda one: one.downtime_s,
    "tasks stopped": lambda one: one.stopped,
    "unnecessarily": lambda one: one.unneeded,
    "generations": lambda one: one.rounds,
    "uneven by": lambda one: one.uneven,
}
_ABOUT = (
    "Groups of Connect workers, one broker beside them, connectors of ten idle tasks each. Times "
    "are from the group coordinator's notice (for a killed worker: when its session expired; for "
    "one that is stopped: when it left) until the last task that had stopped ran again, as the "
    "broker's clock has it; those of a bounced worker hold its start. *Unnecessarily*: tasks that "
    "were stopped though their worker stayed and who ran them next had not just come. *Uneven*: "
    "how many more tasks the busiest worker has at the end than the idlest."
)


def render(measured: Results) -> str:
    """A table for each setting, and what was expected; "" if nothing was measured."""
    if not measured.rebalances:
        return ""
    parts = [_ABOUT, *(_table(measured, each) for each in _settings(measured))]
    lines = [each.line for each in expectations(measured)]
    if lines:
        parts.append("\n".join(["Expected:", "", *lines]))
    return "\n\n".join(parts)


def brief(measured: Results) -> str:
    """A line for each setting and change: seconds, and tasks that were stopped unnecessarily."""
    keys = _contestants(measured)
    head = ["seconds until all tasks run again after … (medians)"]
    head += [f"{TITLES[key]}, s" for key in keys]
    head += [f"{TITLES[key]}, stopped unnecessarily" for key in keys]
    lines = []
    for setting in _settings(measured):
        for change, said in _CHANGES.items():
            cells = [f"{said}; {_said(setting)}"]
            for pick in (_COLUMNS["all run again after, s"], _COLUMNS["unnecessarily"]):
                found = [_of(measured, key, setting, change=change, pick=pick) for key in keys]
                cells += ["-" if each is None else figures.number(each.median) for each in found]
            lines.append(cells)
    return markdown.table(head, lines) if lines else ""


def expectations(measured: Results) -> list[Expectation]:
    """Of ours: soon without a delay; and nothing stopped unnecessarily, but for `eager`."""
    found = []
    for setting in _settings(measured) if _OURS in _contestants(measured) else ():
        tasks, protocol, delay_ms = setting
        for change, said in _CHANGES.items():
            what = f"{_said(setting)}, {said}"
            if delay_ms == 0:
                soon = _of(measured, _OURS, setting, change=change, pick=lambda one: one.all_run_s)
                text = f"all {tasks} tasks run within {_SOON_S:g} s: {what}"
                found.append(_at_most(_SOON_S, soon, text, unit=" s"))
            if protocol != "eager":
                idle = _of(measured, _OURS, setting, change=change, pick=lambda one: one.unneeded)
                text = f"no task is stopped unnecessarily: {what}"
                found.append(_at_most(0.0, idle, text, unit=" tasks"))
    return found


def _at_most(most: float, actual: Spread | None, text: str, *, unit: str) -> Expectation:
    return Expectation(
        text=text,
        actual=None if actual is None else actual.median,
        met=actual is not None and actual.median <= most,
        unit=unit,
    )


def _table(measured: Results, setting: tuple[int, str, int]) -> str:
    lines = []
    for change, said in _CHANGES.items():
        for key in _contestants(measured):
            cells = [
                figures.with_range(_of(measured, key, setting, change=change, pick=pick))
                for pick in _COLUMNS.values()
            ]
            lines.append([f"{said}: {TITLES[key]}", *cells])
    return f"**{_said(setting)}**\n\n" + markdown.table(["", *_COLUMNS], lines)


def _said(setting: tuple[int, str, int]) -> str:
    tasks, protocol, delay_ms = setting
    rests = f"reassignment delay {delay_ms / 1000:g} s" if delay_ms else "no delay"
    return f"{tasks} tasks, {protocol}, {rests}"


def _settings(measured: Results) -> list[tuple[int, str, int]]:
    return list(dict.fromkeys(each.setting for each in measured.rebalances))


def _contestants(measured: Results) -> list[str]:
    there = {each.contestant for each in measured.rebalances}
    return [key for key in TITLES if key in there]


def _of(
    measured: Results, key: str, setting: tuple[int, str, int], *, change: str, pick: _Pick
) -> Spread | None:
    return measured.of_rebalances(key, setting, change, pick=pick)
