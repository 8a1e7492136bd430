"""The commands of `mm2`, as its command line has them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from mm2.cli import main


def every() -> Iterator[tuple[str, click.Command]]:
    """Each command that does something, with its words after `mm2`: groups are entered."""
    yield from _members(main.cli, "")


def _members(group: click.Group, before: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            yield from _members(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command
