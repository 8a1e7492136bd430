"""Prints what commands write to stdout or stderr, with terminal control characters escaped.

JSON output does not need it: `json.dumps` escapes them.
"""

from __future__ import annotations

import io

import click

from connect_runtime.base import terminal_escape


def print_line(line: str, *, err: bool = False) -> None:
    """Exactly one line, whatever the text holds."""
    click.echo(terminal_escape.escape(line), err=err)


def print_lines(text: str, *, err: bool = False) -> None:
    """Text whose line feeds are ours."""
    click.echo(terminal_escape.escape_lines(text), err=err)


def print_usage_error(error: click.ClickException) -> None:
    """On stderr, as click shows it: with the usage of the command."""
    shown = io.StringIO()
    error.show(shown)
    print_lines(shown.getvalue().removesuffix("\n"), err=True)
