"""What a scrape of many partitions takes, and what copying loses by it, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench import figures, markdown, results
from tests.bench.promises import Expectation
from tests.bench.results import Results, Scraping

PATHS = (results.BY_TOPIC, results.BY_PARTITION, results.BY_JAVA)
SECONDS_MAX = 1.0
AS_MUCH_MIN = 0.97
"""Copied with scrapes, to without: what is less than that is slower."""
_Pick = Callable[[Scraping], float | None]
_COLUMNS: dict[str, _Pick] = {
    "takes, ms": lambda one: None if one.took_s is None else one.took_s * 1000,
    "CPU of the node, ms": lambda one: None if one.cpu_s is None else one.cpu_s * 1000,
    "MB": lambda one: None if one.bytes is None else one.bytes / 1e6,
    "copied, to without": lambda one: one.to_without,
    "load of the machine": lambda one: one.load,
}


def render(measured: Results) -> str:
    """The table, and what was expected; "" if nothing was measured."""
    if not measured.scrapings:
        return ""
    partitions = max(each.partitions for each in measured.scrapings)
    about = (
        f"Metrics of a flow of {partitions:,} partitions, all copied between two brokers, are "
        "scraped over HTTP: by partition, and by MirrorMaker 2's names, which are served on a path "
        "of their own. By topic, which is the default: of a node of as many that is made up. While "
        "it copies a backlog, pairs of windows of 1.5 s follow each other, one with a scrape: "
        "*copied, to without* is how much came in the one, to the other."
    )
    lines = [each.line for each in expectations(measured)]
    table = markdown.table([f"scrape of {partitions:,} partitions", *_COLUMNS], _lines(measured))
    return "\n\n".join([about, table, "\n".join(["Expected:", "", *lines])])


def brief(measured: Results) -> str:
    """The table alone."""
    if not measured.scrapings:
        return ""
    head = [f"scrape of {max(each.partitions for each in measured.scrapings):,} partitions"]
    return markdown.table([*head, *_COLUMNS], _lines(measured))


def expectations(measured: Results) -> list[Expectation]:
    """Under a second, and copying goes on as fast."""
    found = []
    for path, copying in _kinds(measured):
        took = measured.of_scrapings(path, lambda one: one.took_s, while_copying=copying)
        if took is not None:
            found.append(
                Expectation(
                    text=f"a scrape {_said(path, copying=copying)} takes under 1 s",
                    actual=took.median,
                    met=took.median < SECONDS_MAX,
                    unit=" s",
                )
            )
    copied = measured.of_scrapings(
        results.BY_PARTITION, lambda one: one.to_without, while_copying=True
    )
    if copied is not None:
        found.append(
            Expectation(
                text="as much is copied with scrapes as without",
                actual=copied.median,
                met=copied.median >= AS_MUCH_MIN,
            )
        )
    return found


def _lines(measured: Results) -> list[list[str]]:
    return [
        [
            _said(path, copying=copying),
            *(
                figures.with_range(measured.of_scrapings(path, pick, while_copying=copying))
                for pick in _COLUMNS.values()
            ),
        ]
        for path, copying in _kinds(measured)
    ]


def _kinds(measured: Results) -> list[tuple[str, bool]]:
    there = {(each.path, each.while_copying) for each in measured.scrapings}
    wanted = [(path, copying) for path in PATHS for copying in (False, True)]
    return [each for each in wanted if each in there]


def _said(path: str, *, copying: bool) -> str:
    return f"{path}, while a backlog is copied" if copying else path
