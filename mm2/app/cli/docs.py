"""`mm2 docs`: the reference of configuration keys, exit codes and metrics of this release."""

from __future__ import annotations

import click

from mm2.app import exits


@click.command("docs")
@click.argument("what", type=click.Choice(["configuration", "exit-codes", "metrics"]))
def command(*, what: str) -> None:
    """Print a page of the reference as Markdown: every configuration key, exit code or metric.

    \b
    Examples:
      mm2 docs configuration
      mm2 docs exit-codes
      mm2 docs metrics
    """
    from mm2.app import reference  # not above: it loads what reads settings

    pages = {
        "configuration": reference.configuration_page,
        "exit-codes": exits.docs_page,
        "metrics": reference.metrics_page,
    }
    click.echo(pages[what](), nl=False)
