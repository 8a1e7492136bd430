"""The status page of flows that are made up, in a real browser: much of everything, long and
hostile names, and what must never look well."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.config.pause_and_throttle_overrides import OperatorOverrides, OverrideKind
from mm2.connectors.status_registry import CheckpointGroupsSnapshot, GroupSearchResult
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.status import flow_status
from mm2.status.status_document import FlowProblem, ReportedFlowState
from mm2.ui.lag_timeline import TimelinePoint
from mm2.ui.status_page_command_runner import CommandResult
from tests.support import browser as support_browser
from tests.support import eventually, made_up_page, seen_flows, statuses
from tests.support.browser import Browser
from tests.support.made_up_page import MadeUp

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

NOW_MS = seen_flows.NOW_MS
WIDTHS = (320, 390, 760, 1280)
HOSTILE = "<img src=x onerror='window.planted = 1'>\u202e\"&lt;"
LONG = "a-name.that_is-as-long-as-a-topic-may-be-" * 6
CLUSTERS = ("eu-central", "us-east", "us-west", "ap-south", "a-cluster-with-a-long-name", "hub")
STOPPED = seen_flows.part(state="halted", reason=f"it is gone. Remedy: mm2 why {LONG}")
SOON_S = 30.0


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with support_browser.opened(tmp_path) as found:
        yield found
        assert found.foreign() == []


def many() -> MadeUp:
    """Six clusters, flows both ways, a group with a hostile name, an hour with a hole in it."""
    parts = [seen_flows.part(LONG[:240] + f"{number}") for number in range(120)]
    shown = []
    for number, alias in enumerate(CLUSTERS[:-1]):
        shown += [
            seen_flows.flow(*parts, flow=f"{alias}->hub", warnings=(LONG,)),
            seen_flows.flow(*([STOPPED] if number == 2 else parts[:2]), flow=f"hub->{alias}"),
        ]
    point = Checkpoint(
        group=HOSTILE, partition=TopicPartition(LONG, 0), upstream=2**62, downstream=2**62
    )
    found = GroupSearchResult(total_count=1, matching_count=1, groups={HOSTILE: [point]})
    made = MadeUp(flows=shown, points=hour(), answer=answered())
    name = f"{CLUSTERS[0]}->hub"
    made.groups.create_groups_publisher(name, 0).publish(
        CheckpointGroupsSnapshot(
            last_round_s=0.0, last_round_wall_ms=NOW_MS, find_groups=lambda *_: found
        )
    )
    return made


def hour() -> list[TimelinePoint]:
    return [
        TimelinePoint(
            at_ms=NOW_MS - (360 - step) * 10_000,
            lag_records=None if 100 < step < 150 else 10**9,
            lag_ms=None if 100 < step < 150 else int(9_000 * (1 + math.sin(step / 30))),
            records_s=4_000.0 + step,
            bytes_s=1e6,
        )
        for step in range(361)
    ]


def answered() -> CommandResult:
    one = {
        "id": "1",
        "at_ms": NOW_MS,
        "topic": LONG,
        "partition": 0,
        "kind": "source-gone",
        "source": [1, 2**62],
        "target": None,
        "detail": HOSTILE,
    }
    action = {**one, "id": "2", "kind": "operator-action", "partition": None, "source": None}
    found = {
        "incident_count": 1,
        "kinds": {"source-gone": 1},
        "incidents": [one],
        "actions": [action],
    }
    return CommandResult(output=found | planned(), at_ms=NOW_MS, took_s=1.0)


def planned() -> dict[str, object]:
    finding = {"severity": "no-go", "badge": "bad", "code": "c", "text": LONG}
    return {
        "verdict": "NO-GO",
        "badge": "bad",
        "plan_ms": NOW_MS,
        "origin_error": LONG,
        "lag_records": None,
        "lag_ms": None,
        "newest_ms": None,
        "group_count": 7,
        "reread": LONG,
        "unmoved_groups": [LONG] * 3,
        "findings": [finding] * 9,
        "findings_hidden": 3,
    }


def test_much_of_everything_fits_and_can_be_read(browser: Browser):
    with made_up_page.served(many()) as url:
        browser.open(url)
        browser.await_text("#topics", "a-name.that")
        browser.await_text("#groups", "onerror")
        browser.await_text("#incidents", "source-gone")
        browser.await_text("#plan", "NO-GO")
        browser.script("document.querySelectorAll('details').forEach((each) => each.open = true)")
        for dark in (False, True):
            for width in WIDTHS:
                browser.size(width, dark=dark)
                eventually.eventually(lambda: browser.overflow() <= 0, SOON_S)
                assert browser.faint() == [], (width, dark)
                assert apart(browser) == [], (width, dark)
        assert browser.script("return [...document.images].length") == 0
        assert browser.script("return window.planted") is None
        assert browser.complaints() == []
        assert apart(browser, planted=COVERED) != [], "the judge sees it"


# One cluster of the map upon another.
COVERED = "const on = document.querySelector('.cluster'); on.after(on.cloneNode(true));"


def apart(browser: Browser, planted: str = "") -> list[str]:
    """Clusters on the map that cover one another; what is planted may be drawn over at once."""
    return list(
        browser.script(
            planted + "const at = [...document.querySelectorAll('.cluster rect')]"
            "  .map((each) => each.getBoundingClientRect());"
            "return at.flatMap((one, n) => at.slice(n + 1).filter((other) =>"
            "  one.left < other.right && other.left < one.right &&"
            "  one.top < other.bottom && other.top < one.bottom).map(String))"
        )
    )


UNKNOWN = seen_flows.part(end=None, since_ms=seen_flows.NOW_MS - 60_000)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"state": ReportedFlowState.UNKNOWN}, "unknown"),
        ({"partitions_on_other_nodes": 3, "partitions": ()}, "running elsewhere"),
        ({"partitions_on_other_nodes": 3, "partitions": (UNKNOWN,)}, "running, unknown"),
        ({"partitions": (UNKNOWN,)}, "running, unknown"),
        ({"partitions": ()}, "running, pending"),
        ({"state": ReportedFlowState.NOT_RUNNING}, "not running"),
    ],
)
def test_what_is_not_known_never_looks_well(browser: Browser, fields, words):
    made = MadeUp(flows=[seen_flows.flow(seen_flows.part(), **fields)])
    with made_up_page.served(made) as url:
        browser.open(url)
        browser.await_text("#flows td:nth-child(2)", words)
        browser.await_text("#estimate", "unknown")
        green = browser.script(
            "return [...document.querySelectorAll('#flows .severity-good, #topology .severity-good,"
            " #estimate .severity-good, #plan .severity-good')].map((each) => each.textContent)"
        )
        assert green == []
        assert browser.text("#flows td:nth-child(5)") == "unknown", "no rate yet"


def test_what_is_well_here_says_that_there_is_more_elsewhere(browser: Browser):
    shown = seen_flows.flow(seen_flows.part(), partitions_on_other_nodes=3, nodes=("a", "b"))
    with made_up_page.served(MadeUp(flows=[shown])) as url:
        browser.open(url)
        browser.await_text("#flows td:nth-child(2)", "running here")
        assert browser.cells("#flows", "east->west")[2:4] == ["0 here", "0 s here"]
        assert "3 on other nodes" in browser.cells("#flows", "east->west")[6]
        browser.await_text("#notes", "3 partitions are replicated by other nodes (a, b); see")
        browser.await_text("#estimate", "unknown")
        assert browser.title == "healthy here · mm2"


def test_what_operators_hold_and_that_nothing_matches_is_said_in_words(browser: Browser):
    held = OperatorOverrides(other_connectors={"MirrorCheckpointConnector": OverrideKind.PAUSED})
    shown = seen_flows.flow(
        seen_flows.part(),
        status=statuses.flow(statuses.partition(), holds=held),
        warnings=tuple(flow_status.describe_overrides(held, resume="mm2 resume x")),
    )
    made = MadeUp(flows=[shown])
    with made_up_page.served(made) as url:
        browser.open(url)
        browser.await_text("#groups-note", "Checkpoints are paused by an operator; resume")
        browser.await_text("#notes", "MirrorCheckpointConnector is paused by an operator")
        made.flows = [seen_flows.flow()]
        browser.await_text("#flows td:nth-child(2)", "running, pending")
        browser.await_text("#estimate", "nothing to replicate: no topic of the source matches")


def test_of_flows_that_are_gone_nothing_stays_on_the_page(browser: Browser):
    made = MadeUp(flows=[seen_flows.flow(seen_flows.part())])
    with made_up_page.served(made) as url:
        browser.open(url)
        browser.await_text("#estimate", "no obstacle known")
        browser.await_text("#topology", "west")
        made.flows = []
        browser.await_text("#no-flows", "No flow is running")
        assert browser.text("#detail") == ""
        assert browser.text("#topology") == ""
        assert browser.title == "mm2"
        made.flows = [seen_flows.flow(seen_flows.part(), flow="north->south")]
        browser.await_text("#detail-head", "north->south")
        browser.await_text("#topology", "south")


@pytest.mark.parametrize("place", ["#%", "#%E0%A4%A", "#nobody"])
def test_an_address_of_nothing_leads_to_the_first_flow(browser: Browser, place):
    with made_up_page.served(MadeUp(flows=[seen_flows.flow()])) as url:
        browser.open(url + place)
        browser.await_text("#detail-head", "east->west")
        assert browser.complaints() == []


def test_what_is_noted_twice_stands_there_twice_and_no_oftener(browser: Browser):
    noted = FlowProblem(text="the same again", at_ms=None)
    made = MadeUp(flows=[seen_flows.flow(problems=(noted, noted))])
    with made_up_page.served(made) as url:
        browser.open(url)
        browser.await_text("#notes", "the same again")
        before = made.overviews
        eventually.eventually(lambda: made.overviews >= before + 3, SOON_S)
        assert browser.text("#notes").count("the same again") == 2


def test_a_page_that_never_got_an_answer_says_so(browser: Browser):
    made = MadeUp(flows=[seen_flows.flow(seen_flows.part())])
    with made_up_page.served(made) as url:
        browser.open(url)
        browser.await_text("#flows", "running")
    browser.await_text("#stale", "The process does not respond", SOON_S)
    assert browser.title == "stale · mm2"


def test_a_page_that_nobody_sees_asks_for_little(browser: Browser):
    made = MadeUp(flows=[seen_flows.flow(seen_flows.part())])
    with made_up_page.served(made) as url:
        browser.open(url)
        browser.await_text("#estimate", "no obstacle known")
        browser.script("Object.defineProperty(document, 'hidden', { get: () => true })")
        browser.script("document.getElementById('fresh').textContent = ''")
        browser.await_text("#fresh", "as of")
        before, overviews = made.details, made.overviews
        eventually.eventually(lambda: made.overviews >= overviews + 3, SOON_S)
        assert made.details <= before + 1, "one may have been under way"
