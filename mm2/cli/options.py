"""Command-line options that several commands share: configuration file, flow, timeout, JSON.

The configuration file is `--config FILE`, otherwise the file named by the environment variable
`MM2_CONFIG`, otherwise clusters.yaml in the current directory. Commands without other arguments
also accept the file as `[FILE]`.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from connect_runtime.config import config_errors
from mm2 import exit_codes
from mm2.config import config_value_types
from mm2.config.mm2_settings import Mm2Settings
from mm2.topics.flow_config import Flow

F = TypeVar("F", bound=Callable[..., Any])

_POSITIVE = click.FloatRange(min=0, min_open=True)

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def seconds_option(
    name: str,
    field: str,
    default_s: float,
    *,
    text: str,
    allowed: click.FloatRange = _POSITIVE,
) -> Callable[[F], F]:
    """Add an option whose value is a number of seconds. The command receives the value as the
    parameter `field`; `text` is the option's help text."""
    return click.option(
        name,
        field,
        type=allowed,
        default=default_s,
        show_default=True,
        metavar="SECONDS",
        help=text,
    )


def timeout_option(default_s: float, text: str) -> Callable[[F], F]:
    """Add the option `--timeout`, which is passed to the command as `timeout_s`; `text` is the
    option's help."""
    return seconds_option("--timeout", "timeout_s", default_s, text=text)


def partitions_option(metavar: str, text: str) -> Callable[[F], F]:
    """Add the repeatable option `--partition`, which is passed to the command as `partitions`."""
    return click.option(
        "--partition",
        "partitions",
        type=click.IntRange(min=0),
        multiple=True,
        metavar=metavar,
        help=text,
    )


CONFIG_VARIABLE = "MM2_CONFIG"
DEFAULT_CONFIG_FILE = pathlib.Path("clusters.yaml")
_FILE_TYPE = click.Path(path_type=pathlib.Path, dir_okay=False)
_FALLBACK_HELP = f"[env var: {CONFIG_VARIABLE}; default: {DEFAULT_CONFIG_FILE}]"


class ConfigFileNotFoundError(click.ClickException):
    """Raised if no configuration file was passed and the file named by `MM2_CONFIG`, or the default
    file, does not exist."""

    exit_code = exit_codes.BAD_INPUT


def config_argument(function: F) -> F:
    """Add `[FILE]` and `--config FILE` to a command, which receives the path as `file`."""

    @click.argument("positional", metavar="[FILE]", type=_FILE_TYPE, required=False)
    @_build_config_option("Configuration file; same as FILE.")
    @functools.wraps(function)
    def run_command_with_file(
        *, positional: pathlib.Path | None, config: pathlib.Path | None, **others: Any
    ) -> Any:
        return function(file=choose_config_file(positional, config), **others)

    return run_command_with_file  # type: ignore[return-value]


def config_option(text: str) -> Callable[[F], F]:
    """Add `--config FILE` to a command without a `[FILE]` argument. The command receives the path
    as `file`; `text` is the option's help text."""

    def decorate(function: F) -> F:
        @_build_config_option(text)
        @functools.wraps(function)
        def run_command_with_file(*, config: pathlib.Path | None, **others: Any) -> Any:
            return function(file=choose_config_file(None, config), **others)

        return run_command_with_file  # type: ignore[return-value]

    return decorate


def unresolved_config_option(function: F) -> F:
    """Add `--config FILE` to a command that itself finds FILE among its arguments.

    The command receives the option as `config` and must call `choose_config_file`.
    """
    return _build_config_option("Configuration file; same as FILE.")(function)


def _build_config_option(text: str) -> Callable[[F], F]:
    return click.option(
        "-c", "--config", type=_FILE_TYPE, metavar="FILE", help=f"{text}  {_FALLBACK_HELP}"
    )


def choose_config_file(
    positional: pathlib.Path | None,
    config: pathlib.Path | None,
    *,
    environment: Mapping[str, str] = os.environ,
) -> pathlib.Path:
    """Return the path of the configuration file: FILE, `--config`, `MM2_CONFIG` or the default, in
    this order.

    Raises `click.UsageError` if FILE and `--config` differ, and `ConfigFileNotFoundError` if the
    file named by `MM2_CONFIG`, or the default file, does not exist.
    """
    if positional is not None and config is not None and positional.resolve() != config.resolve():
        raise click.UsageError(
            f"FILE is {positional} but --config is {config}: pass the configuration file only once"
        )
    named = positional or config
    variable = environment.get(CONFIG_VARIABLE)
    if named is not None:
        # Printed commands omit the default file; with MM2_CONFIG set they would use another file.
        hidden = (
            variable
            and named == DEFAULT_CONFIG_FILE
            and pathlib.Path(variable).resolve() != named.resolve()
        )
        return named.absolute() if hidden else named
    if variable:
        if not pathlib.Path(variable).exists():
            raise ConfigFileNotFoundError(
                f"no configuration file: the file {variable} named by {CONFIG_VARIABLE} does not "
                f"exist; pass --config FILE or correct {CONFIG_VARIABLE}"
            )
        return pathlib.Path(variable)
    if not DEFAULT_CONFIG_FILE.exists():
        raise ConfigFileNotFoundError(
            f"no configuration file: {DEFAULT_CONFIG_FILE} does not exist in "
            f"{pathlib.Path.cwd()}; pass --config FILE or set {CONFIG_VARIABLE}"
        )
    return DEFAULT_CONFIG_FILE


def find_flow(settings: Mm2Settings, name: str, *, hint: str) -> Flow:
    """Return the flow with this name.

    Raises `click.BadParameter` if the flow does not exist; `hint` names the parameter in the
    message.
    """
    known = {flow.name: flow for flow in settings.flows}
    if name in known:
        return known[name]
    nearest = config_errors.find_nearest_name(name, known)
    meant = "" if nearest is None else f"; did you mean '{nearest}'?"
    raise click.BadParameter(
        f"{settings.file} has no flow '{name}'; flows: {', '.join(known)}{meant}", param_hint=hint
    )


def find_named_or_only_flow(settings: Mm2Settings, name: str | None, *, hint: str) -> Flow:
    """Return the flow with this name. If `name` is None, return the only flow in the file.

    Raises `click.BadParameter` if the flow does not exist, and `click.UsageError` if `name` is None
    and the file has several flows.
    """
    if name is not None:
        return find_flow(settings, name, hint=hint)
    if len(settings.flows) == 1:
        return settings.flows[0]
    known = ", ".join(f"'{flow.name}'" for flow in settings.flows)
    raise click.UsageError(f"{settings.file} has several flows: pass {hint} with one of {known}")


class ByteRateType(click.ParamType):  # type: ignore[type-arg]  # no generic before click 8.3
    """Command-line type of a byte rate such as `20MB`, converted to whole bytes per second."""

    name = "BYTES/s"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        kind = config_value_types.byte_rate_type()
        try:
            return kind.parse((str(value),))
        except ValueError:
            self.fail(f"{value!r} is not allowed; allowed: {kind.allowed}", param, ctx)
