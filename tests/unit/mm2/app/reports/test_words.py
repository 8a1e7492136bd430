from __future__ import annotations

import pytest

from mm2.app.reports import words
from mm2.core import commands, time_to_loss

By, Kind = time_to_loss.By, time_to_loss.Kind
SOURCE = commands.Cluster(bootstrap="e:1")


def runs_out(by: time_to_loss.By, left_ms: int = 7_200_000) -> time_to_loss.Outlook:
    return time_to_loss.Outlook(kind=Kind.RUNS_OUT, left_ms=left_ms, by=by, share=0.1)


@pytest.mark.parametrize(
    ("outlook", "short", "said"),
    [
        (
            runs_out(By.TIME),
            "2.0 h",
            "the source deletes what is not copied yet in 2.0 h at the earliest (retention.ms)",
        ),
        (
            runs_out(By.SIZE, 90_000),
            "90 s",
            "the source deletes what is not copied yet in about 90 s, as fast as records come "
            "(retention.bytes)",
        ),
        (
            runs_out(By.START, 0),
            "0 s",
            "the source deletes what is not copied yet in about 0 s, as fast as its log's start "
            "moves",
        ),
        (
            time_to_loss.Outlook(kind=Kind.GONE, left_ms=0, gone=20),
            "gone",
            "the source deleted 20 offsets before they were copied",
        ),
        (time_to_loss.Outlook(kind=Kind.KEPT), "-", ""),
        (time_to_loss.Outlook(kind=Kind.UNKNOWN), "-", ""),
        (time_to_loss.Outlook(kind=Kind.NOTHING_WAITS), "-", ""),
    ],
)
def test_what_the_source_does_to_what_waits(outlook, short, said):
    assert (words.time_left(outlook), words.loss(outlook)) == (short, said)


def test_of_nothing_nothing_is_said():
    assert words.time_left(None) == "-"


@pytest.mark.parametrize(
    ("outlook", "retention", "setting"),
    [
        (runs_out(By.TIME), time_to_loss.Retention(keeps_ms=5), "retention.ms=10"),
        (runs_out(By.SIZE), time_to_loss.Retention(keeps_bytes=7), "retention.bytes=14"),
        (runs_out(By.START), time_to_loss.Retention(keeps_ms=5), ""),
        (runs_out(By.TIME), None, ""),
        (runs_out(By.TIME), time_to_loss.Retention(keeps_ms=0), ""),
        (time_to_loss.Outlook(kind=Kind.GONE), time_to_loss.Retention(keeps_ms=5), ""),
    ],
)
def test_the_way_on_is_to_let_it_keep_more(outlook, retention, setting):
    line = words.way_on("orders", outlook, retention=retention, source=SOURCE)
    assert line == (setting and SOURCE.set_topic("orders", dict([setting.split("=")])))
