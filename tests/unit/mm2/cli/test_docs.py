"""The reference is what the program declares, and what is committed is the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.worker import connect_metrics_registry
from mm2 import exit_codes
from mm2.cli import docs, main
from mm2.metrics import metric_declarations

GUIDES = Path(__file__).parents[4] / "docs" / "guides"
PAGES = {
    "metrics": docs.render_metrics_page,
    "configuration": docs.render_configuration_page,
    "exit-codes": exit_codes.render_exit_codes_page,
}


@pytest.mark.parametrize("what", PAGES)
def test_the_committed_page_is_what_is_made(what):
    path = GUIDES / f"{what}.md"
    assert path.read_text(encoding="utf-8") == PAGES[what](), f"mm2 docs {what} > {path}"


@pytest.mark.parametrize("what", PAGES)
def test_the_command_prints_it(what, capsys):
    assert main.run_command(["docs", what]) == 0
    assert capsys.readouterr().out == PAGES[what]()


def test_every_metric_of_mm2_run_is_explained():
    page = docs.render_metrics_page()
    for metric in (*metric_declarations.ALL_METRICS, *metric_declarations.PARTITION_METRICS):
        labels = ", ".join(f"`{each}`" for each in metric.labels)
        kind, unit = metric.kind.value, metric.unit
        assert f"| `{metric.name}` | {kind} | {unit} | {labels} | {metric.help} |" in page
    for group in connect_metrics_registry.ALL_GROUPS:
        for metric in connect_metrics_registry.declare_metrics(group).values():
            of_sinks = group is connect_metrics_registry.SINK_TASK
            assert (f"| `{metric.name}` |" in page) is not of_sinks


def test_tables_have_as_many_cells_in_each_row():
    for make in PAGES.values():
        width = 0
        for line in make().splitlines():
            if not line.startswith("|"):
                width = 0
                continue
            cells = line.replace(r"\|", "").count("|")
            assert width in (0, cells), line
            width = cells


def test_defaults_are_those_that_are_in_force():
    page = docs.render_configuration_page()
    for key, default in (
        ("emit.heartbeats.enabled", "`false`"),
        ("emit.checkpoints.interval.seconds", "`5`"),
        ("scheduled.rebalance.max.delay.ms", "`5000`"),
        ("config.storage.replication.factor", "`-1`"),
        ("replication.factor", "`-1`"),
        ("checkpoints.topic.replication.factor", "as `replication.factor`"),
        ("replicating.within.seconds", "`60`"),
        ("by", "`topic`"),
        ("report", ""),
        ("from", "required"),
    ):
        assert f"| `{key}` | {default} |" in page, key
