"""Prints lines to stdout or stderr with terminal control characters escaped.

JSON output needs no escaping here: `json.dumps` escapes control characters.
"""

from __future__ import annotations

import io

import click

from connect_runtime.base import terminal_escape


def print_line(line: str, *, err: bool = False) -> None:
    """Print exactly one line. Line feeds and control characters in the text are escaped."""
    click.echo(terminal_escape.escape_unprintable(line), err=err)


def print_lines(text: str, *, err: bool = False) -> None:
    """Print trusted multi-line text. All control characters except line feeds are escaped."""
    click.echo(terminal_escape.escape_unprintable_except_newlines(text), err=err)


def print_usage_error(error: click.ClickException) -> None:
    """Print a click usage error to stderr, with the usage of the command."""
    shown = io.StringIO()
    error.show(shown)
    print_lines(shown.getvalue().removesuffix("\n"), err=True)
