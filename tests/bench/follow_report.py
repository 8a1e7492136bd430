"""How soon the target knows of groups, and what they would read again there, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench import figures, markdown
from tests.bench.figures import Spread
from tests.bench.promises import Expectation
from tests.bench.results import Following, Rereading, Results

TITLES = {"java": "Java MirrorMaker 2", "mm2-inline": "mm2 run, inline"}
_JAVA, _OURS = TITLES
CASES = {
    "plain": "plain records",
    "transactions": "transactions, some aborted",
    "compacted": "a compacted topic",
    "live": "consumers that read while records come",
}
_FOLLOWED: dict[str, Callable[[Following], float | None]] = {
    "one that moves is on the target after, s": lambda one: one.one_s,
    "all that move: checkpoints after, s": lambda one: one.moved_s,
    "on the target after, s": lambda one: one.synced_s,
    "CPU-s for that": lambda one: one.moved_cpu_s,
    "CPU-s a minute while none moves": lambda one: one.idle_cpu_s,
    "first checkpoints of all after a start, s": lambda one: one.first_s,
    "peak memory, MB": lambda one: None if one.peak_bytes is None else one.peak_bytes / 1e6,
    "load of the machine": lambda one: one.load,
}
_READ: dict[str, Callable[[Rereading], float | None]] = {
    "groups": lambda one: one.groups,
    "without a checkpoint": lambda one: one.untold,
    "records again, median": lambda one: one.median,
    "at most": lambda one: one.most,
    "all groups together": lambda one: one.total,
}
_ABOUT_GROUPS = (
    "Groups with an offset in every partition of one topic, written by AlterConsumerGroupOffsets; "
    "the same `mm2.properties` for both: checkpoints and offsets of groups every 5 s, else "
    "defaults. Seconds are from the last acknowledged commit on the source. CPU and memory are "
    "those of all of a contestant's processes, the mirror itself included."
)
_ABOUT_READING = (
    "Groups stand all over a topic that was mirrored, or consume it live and stop; each goes on on "
    "the target at its newest checkpoint. *Again*: records before its position on the source that "
    "stand at or behind that, counted in both logs; one without a checkpoint begins anew. Missing "
    "even one record would be a fault."
)


def render(measured: Results) -> str:
    """Both tables, and what was expected; "" if nothing was measured."""
    parts = []
    for setting in _settings(measured):
        rows = [
            [TITLES[key], *(_cell(measured, key, setting, pick) for pick in _FOLLOWED.values())]
            for key in TITLES
            if any(each.contestant == key for each in measured.followings)
        ]
        parts.append(f"**{_said(setting)}**\n\n" + markdown.table(["", *_FOLLOWED], rows))
    if parts:
        parts.insert(0, _ABOUT_GROUPS)
    if measured.rereadings:
        rows = [
            [
                f"{said}: {TITLES[key]}",
                *(
                    figures.with_range(measured.of_rereadings(key, case, pick))
                    for pick in _READ.values()
                ),
            ]
            for case, said in CASES.items()
            for key in TITLES
            if any((each.contestant, each.case) == (key, case) for each in measured.rereadings)
        ]
        parts += [_ABOUT_READING, markdown.table(["records read again", *_READ], rows)]
    lines = [each.line for each in expectations(measured)]
    if lines:
        parts.append("\n".join(["Expected:", "", *lines]))
    return "\n\n".join(parts)


def brief(measured: Results) -> str:
    """A line for each figure of groups, and one for each kind of traffic."""
    lines = []
    for setting in _settings(measured):
        for said, pick in _FOLLOWED.items():
            cells = [measured.of_followings(key, setting, pick) for key in TITLES]
            lines.append([f"{_said(setting)}: {said}", *map(_median, cells)])
    for case, said in CASES.items():
        if any(each.case == case for each in measured.rereadings):
            cells = [measured.of_rereadings(key, case, lambda one: one.total) for key in TITLES]
            lines.append([f"records read again by all groups, {said}", *map(_median, cells)])
    head = ["consumer groups (medians)", *TITLES.values()]
    return markdown.table(head, lines) if lines else ""


def expectations(measured: Results) -> list[Expectation]:
    """Seconds, not minutes; for no more than Java takes; and nothing is read again."""
    found = []
    for setting in _settings(measured):
        one = measured.of_followings(_OURS, setting, lambda each: each.one_s)
        found.append(
            Expectation(
                text=f"{_said(setting)}: one that moves is on the target within 15 s",
                actual=None if one is None else one.median,
                met=one is not None and one.median <= 15.0,
                unit=" s",
            )
        )
        for what, pick in (
            ("all that move are there sooner", _FOLLOWED["on the target after, s"]),
            ("less CPU for it", _FOLLOWED["CPU-s for that"]),
            ("less CPU while none moves", _FOLLOWED["CPU-s a minute while none moves"]),
            ("less memory", _FOLLOWED["peak memory, MB"]),
        ):
            theirs, ours = (measured.of_followings(key, setting, pick) for key in TITLES)
            times = figures.ratio(theirs, ours)
            if theirs is not None:
                found.append(
                    Expectation(
                        text=f"{_said(setting)}: {what} than with Java",
                        actual=times,
                        met=times is not None and times >= 1.0,
                    )
                )
    for case, said in CASES.items():
        total = measured.of_rereadings(_OURS, case, lambda each: each.total)
        if any(each.case == case for each in measured.rereadings):
            found.append(
                Expectation(
                    text=f"no group reads a record again: {said}",
                    actual=None if total is None else total.high,
                    met=total is not None and total.high == 0,
                    unit=" records",
                )
            )
    return found


def _cell(
    measured: Results,
    key: str,
    setting: tuple[int, int],
    pick: Callable[[Following], float | None],
) -> str:
    return figures.with_range(measured.of_followings(key, setting, pick))


def _median(spread: Spread | None) -> str:
    return "-" if spread is None else figures.number(spread.median)


def _said(setting: tuple[int, int]) -> str:
    groups, partitions = setting
    return f"{groups:,} groups of {partitions} partitions"


def _settings(measured: Results) -> list[tuple[int, int]]:
    return list(dict.fromkeys(each.setting for each in measured.followings))
