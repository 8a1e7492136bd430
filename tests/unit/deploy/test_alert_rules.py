"""Rules for Prometheus: promtool takes them, each alert is tested, and who is woken is helped."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from mm2.cli import main
from tests.support import debian_tools, rules

ALERTS = rules.alerts()
BY_NAME = {each.name: each for each in ALERTS}
TESTS = sorted((rules.PROMETHEUS / "tests").glob("*.yml"))
PAGES = sorted(rules.RUNBOOKS.glob("Mm2*.md"))


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [debian_tools.path("promtool"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_promtool_takes_the_configuration_and_all_rules():
    done = promtool("check", "config", rules.PROMETHEUS / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rule files found" in done.stdout


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_promtools_tests_of_the_rules_hold(file: Path):
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_would_say_if_they_did_not(tmp_path: Path):
    wrong = (
        (rules.PROMETHEUS / "rules" / "alerts.yml")
        .read_text()
        .replace('expr: up{job="mm2"} == 0', 'expr: up{job="mm2"} == 2')
    )
    for folder in ("rules", "tests"):
        (tmp_path / folder).mkdir()
    recording = (rules.PROMETHEUS / "rules" / "recording.yml").read_text()
    (tmp_path / "rules" / "recording.yml").write_text(recording)
    (tmp_path / "rules" / "alerts.yml").write_text(wrong)
    (tmp_path / "tests" / "process.yml").write_text(
        (rules.PROMETHEUS / "tests" / "process.yml").read_text()
    )
    done = promtool("test", "rules", tmp_path / "tests" / "process.yml")
    assert done.returncode == 1
    assert "Mm2NodeDown" in done.stderr + done.stdout


def test_every_alert_is_tested_firing_and_not():
    assert rules.cases() == {name: {True, False} for name in BY_NAME}


def test_names_are_given_once():
    assert len(BY_NAME) == len(ALERTS)


@pytest.mark.parametrize("name", BY_NAME)
def test_an_alert_says_how_urgent_it_is_and_what_helps(name: str):
    page = rules.RUNBOOKS / f"{name}.md"
    assert rules.judged(BY_NAME[name], page.read_text() if page.exists() else None) == []


def test_what_an_alert_lacks_is_told():
    rule = BY_NAME["Mm2LagHigh"]
    page = (rules.RUNBOOKS / "Mm2LagHigh.md").read_text()
    bare = dataclasses.replace(rule, labels={}, annotations={"runbook": "elsewhere"})
    assert rules.judged(rule, None) == ["there is no such runbook"]
    assert rules.judged(rule, page.replace("severity: ticket", "severity: page")) == [
        "its runbook names another severity"
    ]
    assert [
        each.split()[0] for each in rules.judged(bare, page.replace("## What to do", "## Do"))
    ] == [
        "severity",
        "has",
        "has",
        "its",
        "its",
        "its",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_runbook_belongs_to_an_alert_and_its_commands_exist(page: Path):
    assert page.stem in BY_NAME
    found = rules.commands(page.read_text())
    assert found or page.stem == "Mm2ClockSkew"
    assert {each: wrong for each in found if (wrong := mistake(each))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "mm2 statsu clusters.yaml",
        "mm2 lag --partition",
        "mm2 offsets translat",
        "mm2 incidents --kind gone",
        "mm2 failover --from east",
        "mm2 restart --topic orders",
    ],
)
def test_a_command_that_is_none_is_told(line: str):
    assert mistake(line)


def mistake(line: str) -> str:
    """What the command line itself would say to it, "" when it would take it. Nothing is run."""
    command: click.Command = main.cli
    words = shlex.split(line)[1:]
    try:
        context = click.Context(command, info_name="mm2")
        while isinstance(command, click.Group) and words:
            name, found, words = command.resolve_command(context, words)
            assert found is not None
            command, context = found, click.Context(found, info_name=name, parent=context)
        if words and not isinstance(command, click.Group):
            command.parse_args(context, list(words))
    except click.ClickException as error:
        return error.format_message()
    return ""
