"""Options that several commands take, spelled alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_ABOVE_0 = click.FloatRange(min=0, min_open=True)

as_json = click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")


def seconds(
    name: str,
    field: str,
    default_s: float,
    *,
    text: str,
    allowed: click.FloatRange = _ABOVE_0,
) -> Callable[[F], F]:
    """`text` says what lasts so long."""
    return click.option(
        name,
        field,
        type=allowed,
        default=default_s,
        show_default=True,
        metavar="SECONDS",
        help=text,
    )


def timeout(default_s: float, text: str) -> Callable[[F], F]:
    """`--timeout`, as `timeout_s`."""
    return seconds("--timeout", "timeout_s", default_s, text=text)


def partitions(metavar: str, text: str) -> Callable[[F], F]:
    """`--partition`, as often as there are some; `partitions`."""
    return click.option(
        "--partition",
        "partitions",
        type=click.IntRange(min=0),
        multiple=True,
        metavar=metavar,
        help=text,
    )
