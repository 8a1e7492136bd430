from __future__ import annotations

import pytest

from mm2.app.reports import flow_report, source_looks
from mm2.core import time_to_loss
from mm2.core.offsets import log_ends
from mm2.core.topics import snapshot

KEPT = time_to_loss.Outlook(kind=time_to_loss.Kind.KEPT)
SEEN = source_looks.Seen(
    ends=log_ends.Ends(start=2, end=12), copied_to=4, waiting_since_ms=70, outlook=KEPT
)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, (4, 12, 70)),
        ({"copied_to": 6, "end": 9}, (6, 12, 70)),
        ({"copied_to": 6, "end": 15, "waiting_since_ms": 90}, (6, 15, 90)),
        ({"copied_to": 12}, (12, 12, None)),
        ({"copied_to": 13, "end": 15, "waiting_since_ms": 90}, (13, 15, 90)),
    ],
)
def test_what_is_newest_counts(known, expected):
    before = flow_report.Partition(topic="t", partition=0, mirror="e.t", **known)
    found = source_looks.with_look(before, SEEN, recent=True)
    assert (found.copied_to, found.end, found.waiting_since_ms) == expected
    assert (found.start, found.outlook) == (2, KEPT)


def test_an_old_look_says_nothing_of_the_end_of_the_log():
    before = flow_report.Partition(topic="t", partition=0, mirror="e.t", copied_to=12)
    found = source_looks.with_look(before, SEEN, recent=False)
    assert (found.copied_to, found.end, found.outlook) == (12, None, KEPT)


def test_settings_that_may_not_be_read_tell_nothing():
    assert source_looks.retention(None) is None
    told = {"cleanup.policy": "delete", "retention.ms": "5", "retention.bytes": "-1"}
    entries = {name: snapshot.ConfigEntry(value=value) for name, value in told.items()}
    assert source_looks.retention(entries) == time_to_loss.Retention(keeps_ms=5)
