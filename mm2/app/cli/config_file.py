"""The configuration file, as every command takes it: `--config FILE`, else `MM2_CONFIG`, else
clusters.yaml in the current folder. Commands without other arguments also take it as `[FILE]`.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from mm2.app import exits

F = TypeVar("F", bound=Callable[..., Any])

VARIABLE = "MM2_CONFIG"
DEFAULT = pathlib.Path("clusters.yaml")
_KIND = click.Path(path_type=pathlib.Path, dir_okay=False)
_FALLBACK = f"[env var: {VARIABLE}; default: {DEFAULT}]"


class NoConfigurationError(click.ClickException):
    """No file was named, and the one that `MM2_CONFIG` or the default names does not exist."""

    exit_code = exits.BAD_INPUT


def argument(function: F) -> F:
    """`[FILE]` or `--config FILE`, passed on as `file`."""

    @click.argument("positional", metavar="[FILE]", type=_KIND, required=False)
    @_option("The configuration; the same as FILE.")
    @functools.wraps(function)
    def with_file(
        *, positional: pathlib.Path | None, config: pathlib.Path | None, **others: Any
    ) -> Any:
        return function(file=choose(positional, config), **others)

    return with_file  # type: ignore[return-value]


def option(text: str) -> Callable[[F], F]:
    """`--config FILE` of commands with other arguments, passed on as `file`; `text` is its help."""

    def decorate(function: F) -> F:
        @_option(text)
        @functools.wraps(function)
        def with_file(*, config: pathlib.Path | None, **others: Any) -> Any:
            return function(file=choose(None, config), **others)

        return with_file  # type: ignore[return-value]

    return decorate


def option_beside_words(function: F) -> F:
    """`--config FILE`, passed on as `config`: for a command that finds FILE among its arguments,
    and calls `choose`."""
    return _option("The configuration; the same as FILE.")(function)


def _option(text: str) -> Callable[[F], F]:
    return click.option("-c", "--config", type=_KIND, metavar="FILE", help=f"{text}  {_FALLBACK}")


def choose(
    positional: pathlib.Path | None,
    config: pathlib.Path | None,
    *,
    environment: Mapping[str, str] = os.environ,
) -> pathlib.Path:
    """The file to use. Raises `click.UsageError` for two different files, and
    `NoConfigurationError`."""
    if positional is not None and config is not None and positional.resolve() != config.resolve():
        raise click.UsageError(
            f"FILE is {positional}, --config is {config}: name the configuration once"
        )
    named = positional or config
    variable = environment.get(VARIABLE)
    if named is not None:
        # Commands that messages print leave the default out: here it would not be this file.
        hidden = (
            variable and named == DEFAULT and pathlib.Path(variable).resolve() != named.resolve()
        )
        return named.absolute() if hidden else named
    if variable:
        if not pathlib.Path(variable).exists():
            raise NoConfigurationError(
                f"no configuration: {VARIABLE} names {variable}, which does not exist; "
                f"pass --config FILE or set {VARIABLE}"
            )
        return pathlib.Path(variable)
    if not DEFAULT.exists():
        raise NoConfigurationError(
            f"no configuration: {DEFAULT} is not in {pathlib.Path.cwd()}; "
            f"pass --config FILE or set {VARIABLE}"
        )
    return DEFAULT
