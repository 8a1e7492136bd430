"""Values that only this product's keys have: where to begin, bytes per second, budgets of topics.

Everything here reads trimmed text and raises ValueError; `*_ALLOWED` says what may be given.
"""

from __future__ import annotations

import datetime
import re

from mm2.core import filters, flows

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999 (UTC), milliseconds since 1970: no later time can be told to people."""
RATE_LEAST = 1_000
"""Less than this could not move a batch in any time that somebody waits."""
START_ALLOWED = "earliest, latest, or a time with its zone such as 2026-01-31T08:00:00Z"
NO_LIMIT = "none"
RATE_ALLOWED = f"bytes per second from {RATE_LEAST}: 500kB, 20MB, 1GiB and the like"
LIMIT_ALLOWED = f"{RATE_ALLOWED}, or {NO_LIMIT}"

_RATE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) *([A-Za-z]*)(?:/s)?")
_RATE_FACTORS = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}


def read_rate(text: str) -> int:
    """Bytes per second: `500kB`, `20MB`, `1GiB`, with or without `/s`."""
    found = _RATE.fullmatch(text.strip())
    factor = _RATE_FACTORS.get(found[2].lower()) if found else None
    rate = int(float(found[1]) * factor) if found and factor else 0
    if rate < RATE_LEAST:
        raise ValueError(text)
    return rate


def read_topic_budget(text: str) -> flows.TopicBudget:
    """`EXPRESSION=RATE`."""
    expression, _, rate = text.rpartition("=")
    if not expression.strip():
        raise ValueError(text)
    return flows.TopicBudget(filters.compile_patterns((expression,)), read_rate(rate))


def read_limit(text: str) -> int:
    """As `read_rate`, or `none`: 0."""
    return 0 if text.strip().lower() == NO_LIMIT else read_rate(text)


def read_start(text: str) -> flows.StartPosition:
    """Where a partition without any progress begins."""
    if text.lower() in (flows.StartAt.EARLIEST.value, flows.StartAt.LATEST.value):
        return flows.StartPosition(flows.StartAt(text.lower()))
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("no zone")
    since_epoch = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    milliseconds = since_epoch // datetime.timedelta(milliseconds=1)
    if not 0 <= milliseconds <= LATEST_MS:
        raise ValueError("before 1970, or after 9999")
    return flows.StartPosition(flows.StartAt.TIMESTAMP, milliseconds)
