"""The plot in README shows the figures of the benchmarks page."""

from __future__ import annotations

from tests.bench import chart

PAGE = chart.BENCHMARKS.read_text(encoding="utf-8")


def test_the_committed_plot_shows_the_figures_of_the_page():
    assert chart.CHART.read_text(encoding="utf-8") == chart.draw(chart.read_speeds(PAGE)), (
        "python -m tests.bench.chart"
    )


def test_every_workload_of_the_table_is_read():
    speeds = chart.read_speeds(PAGE)
    assert len(speeds) == 17
    assert all(each.workload in PAGE and each.java_tuned > 0 for each in speeds)
    assert speeds[0] == ("1 KB records in batches of 128 KB", 34900.0, 74300.0, 396000.0)
