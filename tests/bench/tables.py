"""Writes the results of benchmark runs into docs/benchmarks.md, RESULTS.md and the plot.

python -m tests.bench.run --row main --json main.json
python -m tests.bench.run --row tiny --row rf3 --json others.json
python -m tests.bench.tables main.json others.json
"""

from __future__ import annotations

from pathlib import Path

import click

from tests.bench import chart, recorded, report
from tests.bench.recorded import Recorded

_ROOT = Path(__file__).parents[2]


@click.command(help=__doc__)
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
)
def main(files: tuple[Path, ...]) -> None:
    """Put the brief form into docs/benchmarks.md, everything into RESULTS.md, and draw the plot."""
    try:
        whole = recorded.joined([Recorded.from_json(each.read_text()) for each in files])
    except (ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"{', '.join(map(str, files))}: {error}") from error
    page = chart.BENCHMARKS
    brief = report.brief(whole.setting, whole.measured)
    page.write_text(report.insert(page.read_text(), brief))
    chart.CHART.write_text(chart.draw(chart.read_speeds(page.read_text())))
    results = _ROOT / "tests" / "bench" / "RESULTS.md"
    everything = report.render(whole.setting, whole.measured)
    results.write_text(f"# What `make bench` measured\n\n{everything}")


if __name__ == "__main__":
    main()
