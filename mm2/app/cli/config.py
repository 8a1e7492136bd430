"""`mm2 config`: what a configuration adds up to, and what is wrong with it."""

from __future__ import annotations

import os
import pathlib

import click

from mm2.app.settings import load, show

_file_argument = click.argument(
    "file",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    default=pathlib.Path("clusters.yaml"),
)


@click.group("config")
def group() -> None:
    """Check and show clusters.yaml.

    \b
    Examples:
      mm2 config check clusters.yaml
      mm2 config show clusters.yaml
    """


@group.command("check")
@_file_argument
def check(file: pathlib.Path) -> None:
    """Tell every mistake in FILE (default: clusters.yaml), or that there is none.

    Exit code 2 when something is wrong; warnings alone are no reason. Nothing is connected to.
    """
    found = load.load(file, environment=os.environ)
    for line in found.warning_lines():
        click.echo(f"warning: {line}", err=True)
    names = ", ".join(flow.name for flow in found.flows)
    clusters = f"{len(found.clusters)} cluster{'s' * (len(found.clusters) != 1)}"
    click.echo(
        f"{file}: {clusters}, {len(found.flows)} flow{'s' * (len(found.flows) != 1)}: {names}"
    )


@group.command("show")
@_file_argument
def show_(file: pathlib.Path) -> None:
    """Print every setting in force, defaults included, with secrets hidden."""
    click.echo(show.show(load.load(file, environment=os.environ)), nl=False)
