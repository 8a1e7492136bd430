"""`mm2 config`: what a configuration adds up to, and what is wrong with it."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import click

from connect_runtime.adapters.config import yaml_source
from connect_runtime.app.settings import problems
from connect_runtime.base import amounts
from mm2.app import exits, terminal
from mm2.app.cli import config_file, usual
from mm2.app.settings import convert, load, mirror_maker, settings

_YAML, _PROPERTIES = "yaml", "properties"
_JSON_VERSION = 1


@click.group("config")
def group() -> None:
    """Check, show and convert clusters.yaml and mm2.properties.

    \b
    Examples:
      mm2 config check clusters.yaml
      mm2 config show mm2.properties
      mm2 config convert mm2.properties > clusters.yaml
    """


@group.command("check")
@config_file.argument
@usual.as_json
def check(*, file: pathlib.Path, as_json: bool) -> int:
    """Report every mistake in FILE (default: clusters.yaml), or that there is none.

    Nothing is connected to: mm2 check does that.
    """
    try:
        found = load.load(file, environment=os.environ)
    except problems.SettingsError as error:
        if not as_json:
            error.consequence = "mm2 run would not start"
            raise
        click.echo(json.dumps(_checked(file, mistakes=error.problems), indent=2))
        return exits.BAD_INPUT
    if as_json:
        click.echo(json.dumps(_checked(file, found=found), indent=2))
        return exits.DONE
    for line in found.warning_lines():
        terminal.print_line(f"warning: {line}", err=True)
    names = ", ".join(flow.name for flow in found.flows)
    clusters = amounts.counted(len(found.clusters), "cluster")
    terminal.print_line(f"{file}: {clusters}, {amounts.counted(len(found.flows), 'flow')}: {names}")
    return exits.DONE


def _checked(
    file: pathlib.Path,
    *,
    found: settings.Settings | None = None,
    mistakes: Sequence[problems.Problem] = (),
) -> dict[str, Any]:
    return {
        "version": _JSON_VERSION,
        "file": str(file),
        "valid": found is not None,
        "clusters": sorted(found.clusters) if found is not None else [],
        "flows": [flow.name for flow in found.flows] if found is not None else [],
        "problems": list(map(dataclasses.asdict, mistakes)),
        "warnings": list(map(dataclasses.asdict, found.warnings)) if found is not None else [],
    }


@group.command("show")
@config_file.argument
@usual.as_json
def show_(*, file: pathlib.Path, as_json: bool) -> None:
    """Print the effective configuration: what workers and connectors are given, secrets hidden.

    Each value has its origin: a line of FILE (default: clusters.yaml), `default` (of mm2), or
    `MM2 default` (of MirrorMaker 2 and Kafka Connect). It is what GET /connectors/NAME/config of a
    running flow answers, and the defaults behind it.
    """
    from mm2.app import effective_config

    shown = effective_config.of(load.load(file, environment=os.environ), environment=os.environ)
    if as_json:
        click.echo(json.dumps(effective_config.as_json(shown), indent=2))
        return
    for line in effective_config.lines(shown):
        terminal.print_line(line)


@group.command("convert")
@config_file.argument
@click.option(
    "--to",
    "form",
    type=click.Choice([_YAML, _PROPERTIES]),
    help="The form to write.  [default: the one that FILE has not]",
)
def convert_(file: pathlib.Path, form: str | None) -> int:
    """Print FILE in the other form: clusters.yaml as mm2.properties, or back.

    The effective configuration stays the same. What the other form cannot express is listed.
    Secrets are printed only if FILE itself contains them.
    """
    before = load.load(file, environment=os.environ)
    is_properties = load.is_properties(file)
    if form == (_PROPERTIES if is_properties else _YAML):
        click.echo(file.read_bytes(), nl=False)  # not as text: the two forms are encoded otherwise
        return exits.DONE
    found = _convert(file, is_properties=is_properties)
    lost = found.unsaid or tuple(_lost(found.text, before, is_properties=is_properties))
    for line in found.notes:
        terminal.print_line(f"note: {line}", err=True)
    for line in lost:
        terminal.print_line(f"cannot be said in the other form: {line}", err=True)
    click.echo(found.text, nl=False)
    return exits.FAILED if lost else exits.DONE


def _convert(file: pathlib.Path, *, is_properties: bool) -> convert.Converted:
    text = load.read_text(file)
    if is_properties:
        return convert.to_yaml(mirror_maker.translate(text), folder=pathlib.Path.cwd())
    root = yaml_source.parse(text).root
    assert isinstance(root, yaml_source.Section), "it was read without mistakes"
    return convert.to_properties(root, folder=file.parent)


def _lost(text: str, before: settings.Settings, *, is_properties: bool) -> list[str]:
    """What reading the result again does not give back."""
    read = load.parse if is_properties else load.parse_properties
    try:
        after = read(text, file="the result", folder=pathlib.Path.cwd(), environment=os.environ)
    except problems.SettingsError as error:
        return [each.describe(error.file) for each in error.problems]
    return convert.differences(before, after)
