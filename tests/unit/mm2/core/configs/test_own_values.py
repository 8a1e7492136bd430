"""Places to begin, and rates."""

from __future__ import annotations

import pytest

from mm2.core import flows
from mm2.core.configs import own_values


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1000", 1000), ("500kB", 500_000), ("20MB/s", 20_000_000), ("1GiB", 2**30), ("1.5k", 1500)],
)
def test_rates(text, rate):
    assert own_values.read_rate(text) == rate


@pytest.mark.parametrize("text", ["", "999", "-1", "1 parsec", "MB", "1MB/h"])
def test_what_is_no_rate(text):
    with pytest.raises(ValueError, match=r".*"):
        own_values.read_rate(text)


def test_a_budget_of_topics_ends_at_its_last_equals_sign():
    found = own_values.read_topic_budget("a=b.*=5MB")
    assert found.bytes_per_s == 5_000_000
    assert found.pattern.matches("a=bc")
    with pytest.raises(ValueError, match=r".*"):
        own_values.read_topic_budget("=5MB")


def test_starts():
    assert own_values.read_start("Latest") == flows.StartPosition(flows.StartAt.LATEST)
    found = own_values.read_start("1970-01-01T01:00:00+01:00")
    assert found == flows.StartPosition(flows.StartAt.TIMESTAMP, 0)


@pytest.mark.parametrize("text", ["", "soon", "2026-01-31T08:00:00", "1969-12-31T00:00:00Z"])
def test_what_is_no_start(text):
    with pytest.raises(ValueError, match=r".*"):
        own_values.read_start(text)
