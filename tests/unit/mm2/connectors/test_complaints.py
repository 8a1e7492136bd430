"""What lasts is told once a minute; what is over, and comes again, at once."""

from __future__ import annotations

import logging

from mm2.connectors import complaints
from tests.fakes import plugin_contexts


def test_each_trouble_is_told_once_a_minute(caplog):
    clock = plugin_contexts.Clock()
    made = complaints.Complaints(logging.getLogger("t"), clock=clock)
    told = []
    for second, about in ((0, "a"), (1, "a"), (2, "b"), (59, "a"), (60, "a"), (61, "a")):
        clock.now = second
        caplog.clear()
        made.say(about, "no")
        told.append([each.getMessage() for each in caplog.records if each.levelname == "WARNING"])
    assert told == [["a: no"], [], ["b: no"], [], ["a: no"], []]
    made.over("a")
    caplog.clear()
    made.say("a", "no")
    assert caplog.text.count("WARNING") == 1
