"""The tables of what several runs of the benchmark have measured, as README and RESULTS show them.

python -m tests.bench.run --row main --json main.json
python -m tests.bench.run --row tiny --row rf3 --json others.json
python -m tests.bench.tables main.json others.json
"""

from __future__ import annotations

from pathlib import Path

import click

from tests.bench import recorded, report
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
    """Put the brief form between README's markers, and everything into RESULTS.md."""
    try:
        whole = recorded.joined([Recorded.from_json(each.read_text()) for each in files])
    except (ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"{', '.join(map(str, files))}: {error}") from error
    readme = _ROOT / "README.md"
    brief = report.brief(whole.setting, whole.measured)
    readme.write_text(report.insert(readme.read_text(), brief))
    results = _ROOT / "tests" / "bench" / "RESULTS.md"
    everything = report.render(whole.setting, whole.measured)
    results.write_text(f"# What `make bench` measured\n\n{everything}")


if __name__ == "__main__":
    main()
