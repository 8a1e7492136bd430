"""The configuration file, as every command takes it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_KIND = click.Path(path_type=pathlib.Path, dir_okay=False)
_DEFAULT = pathlib.Path("clusters.yaml")

argument = click.argument("file", type=_KIND, default=_DEFAULT)


def option(text: str) -> Callable[[F], F]:
    """`--config`, of commands whose arguments are others; `text` says what it is for."""
    return click.option(
        "--config", "file", type=_KIND, default=_DEFAULT, show_default=True, help=text
    )
