"""Runbooks, as somebody reads them who was just woken: all that they name is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mm2.connectors import mirror_topic_writer
from mm2.formats.incident_records import IncidentKind
from mm2.replication.partition_halt_messages import HaltCause
from mm2.status import health_endpoints
from tests.support import boards, rules

PAGES = sorted(rules.RUNBOOKS.glob("Mm2*.md"))
ALERTS = {each.name: each for each in rules.alerts()}
BOARDS = {board["title"] for board in boards.read().values()}
KINDS = {
    *(each.value for each in IncidentKind),
    *(each.value for each in HaltCause),
    *mirror_topic_writer.MIRROR_PROBLEM_CAUSES,
}
HEALTH = (
    health_endpoints.LIVE_PATH,
    health_endpoints.READY_PATH,
    health_endpoints.REPLICATING_PATH,
)
CONFIGURATION = (rules.ROOT / "docs" / "guides" / "configuration.md").read_text()
DRILL = "drill.report"
OF_OTHERS = {
    "transactional.id.expiration.ms": "a broker's",
    "producer.id.expiration.ms": "a broker's",
    "retention.ms": "a topic's",
    "spark.cores.max": "Spark's",
}
"""Keys that are none of ours."""
OF_THE_MACHINE = ("systemctl status mm2", "timedatectl")
_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_QUOTED = re.compile(r"`([^`]+)`")
_KEY = re.compile(r"(?<![\w./-])[a-z]+(?:\.[a-z]+)+(?![\w/])")
_KIND = re.compile(r"[a-z]+(?:-[a-z]+)+")
POINTER = "[Where to run these commands](README.md)"


def unknown(page: str) -> Iterator[str]:
    """What a page names and is not there."""
    for name in re.findall(r"\bMm2[A-Z]\w+", page):
        if name not in ALERTS:
            yield f"alert {name}"
    for name in re.findall(r'dashboard "([^"]+)"', page):
        if name not in BOARDS:
            yield f"dashboard {name}"
    for line in (line for block in _BLOCK.findall(page) for line in block.splitlines()):
        if not line.startswith("mm2 ") and line not in OF_THE_MACHINE and not _is_health(line):
            yield f"command {line}"
    for quoted in _QUOTED.findall(_BLOCK.sub("", page)):
        yield from _unknown_words(quoted)


def _unknown_words(quoted: str) -> Iterator[str]:
    if _KIND.fullmatch(quoted) and quoted not in KINDS:
        yield f"kind {quoted}"
    if quoted.split()[0] in ("mm2", "kubectl", "docker", "cd"):
        return
    for key in _KEY.findall(quoted.split(" --", maxsplit=1)[0]):
        known = key in CONFIGURATION or key in OF_OTHERS or key in (DRILL, "clusters.yaml")
        if not known:
            yield f"key {key}"


def _is_health(line: str) -> bool:
    """A port that Prometheus scrapes, and a path that is served there."""
    config = yaml.safe_load((rules.PROMETHEUS / "prometheus.yml").read_text())
    (target,) = config["scrape_configs"][0]["static_configs"][0]["targets"]
    return line in [f"curl -s {target}{path}" for path in HEALTH]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_all_that_a_page_names_is_there(page: Path):
    assert list(unknown(page.read_text())) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_where_to_type_its_commands(page: Path):
    look = page.read_text().partition("## What to look at")[2].partition("## What to do")[0]
    line = next(line for line in look.splitlines() if line)
    assert line.startswith(POINTER)
    topics = "topic" in ALERTS[page.stem].expr
    for quoted in re.findall(r"`(\S+)`", line):
        assert quoted in ("east->west", "orders", "billing")
    if "`east->west` and `orders` stand" in line:
        assert topics, "the alert names no topic"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short_and_says_something_under_each_heading(page: Path):
    parts = re.split(r"^## .*$", page.read_text(), flags=re.MULTILINE)
    assert all(len(part.split()) >= 5 for part in parts[2:])
    assert len(page.read_text().split()) < 320


def test_every_cause_of_a_standstill_is_told():
    page = (rules.RUNBOOKS / "Mm2PartitionsHalted.md").read_text()
    assert {each.value for each in HaltCause} - set(_QUOTED.findall(page)) == set()


def test_the_kinds_that_an_alert_asks_for_are_those_of_its_page():
    asked = re.search(r'kind=~"([^"]+)"', ALERTS["Mm2DuplicatesPossible"].expr)
    assert asked is not None
    page = (rules.RUNBOOKS / "Mm2DuplicatesPossible.md").read_text()
    assert set(asked[1].split("|")) - set(_QUOTED.findall(page)) == set()


def test_the_first_page_leads_to_what_there_is():
    first = rules.RUNBOOKS / "README.md"
    for target in re.findall(r"\]\(([^)]+)\)", first.read_text()):
        assert (rules.RUNBOOKS / target).exists(), target
    assert "MM2_RUN_DIR=/run/mm2" in (rules.ROOT / "deploy/systemd/mm2.service").read_text()


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        ("as for Mm2LagHihg", "alert Mm2LagHihg"),
        ('the dashboard "mm2 flows"', "dashboard mm2 flows"),
        ("```sh\ncurl -s localhost:9464/health/redy\n```", "command curl"),
        ("```sh\nsystemctl restart kafka\n```", "command systemctl"),
        ("`foreign-rights`", "kind foreign-rights"),
        ("`task.restarts.max`", "key task.restarts.max"),
        ("`on.source.gaps: fail`", "key on.source.gaps"),
    ],
)
def test_what_is_not_there_is_told(planted: str, told: str):
    (said,) = unknown(planted)
    assert said.startswith(told)
