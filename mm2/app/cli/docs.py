"""`mm2 docs`: the reference of metrics and of configuration keys, as this release has them."""

from __future__ import annotations

import click


@click.command("docs")
@click.argument("what", type=click.Choice(["configuration", "metrics"]))
def command(*, what: str) -> None:
    """Print the reference of every metric, or of every configuration key, as Markdown.

    \b
    Examples:
      mm2 docs configuration
      mm2 docs metrics
    """
    from mm2.app import reference  # not above: it loads what reads settings

    pages = {"configuration": reference.configuration_page, "metrics": reference.metrics_page}
    click.echo(pages[what](), nl=False)
