"""A plan of a failover on the status page, in a real browser: it is of its moment, and looks well
only as long as it may be gone by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mm2.ui.status_page_command_runner import CommandResult
from tests.support import browser as support_browser
from tests.support import made_up_page, seen_flows
from tests.support.browser import Browser
from tests.support.made_up_page import MadeUp

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

WELL = seen_flows.flow(seen_flows.part())
STOPPED = seen_flows.flow(seen_flows.part(state="halted", reason="it is gone"))
OLD_MS = 301_000
CHIP = "#plan .chip"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with support_browser.opened(tmp_path) as found:
        yield found
        assert found.complaints() == []


def planned(verdict: str, badge: str, *, age_ms: int = 0) -> CommandResult:
    found = {
        "verdict": verdict,
        "badge": badge,
        "plan_ms": seen_flows.NOW_MS,
        "origin_error": "",
        "lag_records": 0,
        "lag_ms": 0,
        "newest_ms": None,
        "group_count": 1,
        "reread": "at most 0 records",
        "unmoved_groups": [],
        "findings": [],
        "findings_hidden": 0,
    }
    incidents = {"incident_count": 0, "kinds": {}, "incidents": [], "actions": []}
    return CommandResult(output=found | incidents, at_ms=seen_flows.NOW_MS - age_ms, took_s=1.0)


@pytest.mark.parametrize(
    ("flow", "answer", "words", "badge"),
    [
        (WELL, planned("GO", "good"), "GO", "good"),
        (WELL, planned("GO", "good", age_ms=OLD_MS), "GO (outdated)", "off"),
        (STOPPED, planned("GO", "good"), "GO (outdated)", "off"),
        (WELL, planned("NO-GO", "bad", age_ms=OLD_MS), "NO-GO", "bad"),
    ],
)
def test_a_plan_looks_well_while_it_may_be_gone_by(browser: Browser, flow, answer, words, badge):
    made = MadeUp(flows=[flow], answer=answer)
    with made_up_page.served(made) as url:
        browser.open(url)
        browser.await_text(CHIP, words)
        assert browser.text(CHIP) == words
        classes = browser.script("return document.querySelector(arguments[0]).className", CHIP)
        assert classes == f"chip severity-{badge}"
        assert ("; outdated" in browser.text("#plan")) is (badge == "off")


def test_a_plan_that_was_well_is_past_once_a_partition_stops(browser: Browser):
    made = MadeUp(flows=[WELL], answer=planned("GO", "good"))
    with made_up_page.served(made) as url:
        browser.open(url)
        browser.await_text(CHIP, "GO")
        made.flows = [STOPPED]
        browser.await_text(CHIP, "GO (outdated)")
