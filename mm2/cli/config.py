"""`mm2 config check`, `show` and `convert`: validate, show or convert a configuration file."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import click

from connect_runtime.base import plurals
from connect_runtime.config import yaml_parser
from connect_runtime.config.config_errors import ConfigProblem, SettingsError
from connect_runtime.config.yaml_parser import YamlSection
from mm2 import exit_codes
from mm2.cli import options, terminal_output
from mm2.config import config_loader, mm2_properties, properties_conversion
from mm2.config.mm2_settings import Mm2Settings
from mm2.config.properties_conversion import ConvertedFile

_YAML_FORM, _PROPERTIES_FORM = "yaml", "properties"
_JSON_VERSION = 1


@click.group("config")
def config_group() -> None:
    """Check, show or convert a configuration file: clusters.yaml or mm2.properties.

    \b
    Examples:
      mm2 config check clusters.yaml
      mm2 config show mm2.properties
      mm2 config convert mm2.properties > clusters.yaml
    """


@config_group.command("check", short_help="Validate a configuration file.")
@options.config_argument
@options.json_option
def check_config(*, file: pathlib.Path, as_json: bool) -> int:
    """Validate FILE (default: clusters.yaml) and report every mistake at once.

    The clusters are not contacted. To check the clusters too, run mm2 check.
    """
    try:
        found = config_loader.load_config_file(file, environment=os.environ)
    except SettingsError as error:
        if not as_json:
            error.consequence = "mm2 run would not start"
            raise
        click.echo(json.dumps(_build_validation_json(file, mistakes=error.problems), indent=2))
        return exit_codes.BAD_INPUT
    if as_json:
        click.echo(json.dumps(_build_validation_json(file, found=found), indent=2))
        return exit_codes.DONE
    for line in found.format_warnings():
        terminal_output.print_line(f"warning: {line}", err=True)
    names = ", ".join(flow.name for flow in found.flows)
    clusters = plurals.format_count(len(found.clusters), "cluster")
    terminal_output.print_line(
        f"{file}: {clusters}, {plurals.format_count(len(found.flows), 'flow')}: {names}"
    )
    return exit_codes.DONE


def _build_validation_json(
    file: pathlib.Path,
    *,
    found: Mm2Settings | None = None,
    mistakes: Sequence[ConfigProblem] = (),
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


@config_group.command("show", short_help="Print the effective configuration.")
@options.config_argument
@options.json_option
def show_config(*, file: pathlib.Path, as_json: bool) -> None:
    """Print the effective configuration of all workers and connectors, without secrets.

    Each value has its origin: a line of FILE (default: clusters.yaml), `default` (mm2's default),
    or `MM2 default` (the default of MirrorMaker 2 and Kafka Connect). The output contains the
    settings that GET /connectors/NAME/config returns for a running flow, and all defaults.
    """
    from mm2.config import effective_config

    shown = effective_config.derive_effective_config(
        config_loader.load_config_file(file, environment=os.environ), environment=os.environ
    )
    if as_json:
        click.echo(json.dumps(effective_config.render_json(shown), indent=2))
        return
    for line in effective_config.render_yaml(shown):
        terminal_output.print_line(line)


@config_group.command("convert", short_help="Convert between YAML and properties.")
@options.config_argument
@click.option(
    "--to",
    "form",
    type=click.Choice([_YAML_FORM, _PROPERTIES_FORM]),
    help="Output format.  [default: properties for a YAML file, otherwise yaml]",
)
def convert_config(file: pathlib.Path, form: str | None) -> int:
    """Convert clusters.yaml to mm2.properties, or the reverse, and print the result.

    The effective configuration stays the same. Settings that the other format cannot express are
    listed on stderr. Secrets are printed only if FILE itself contains them.
    """
    before = config_loader.load_config_file(file, environment=os.environ)
    is_properties = config_loader.is_properties_file(file)
    if form == (_PROPERTIES_FORM if is_properties else _YAML_FORM):
        click.echo(file.read_bytes(), nl=False)  # as bytes: the formats differ in encoding
        return exit_codes.DONE
    found = _convert_config_file(file, is_properties=is_properties)
    lost = found.inexpressible or tuple(
        _find_lost_settings(found.text, before, is_properties=is_properties)
    )
    for line in found.notes:
        terminal_output.print_line(f"note: {line}", err=True)
    for line in lost:
        terminal_output.print_line(f"cannot be expressed in the other format: {line}", err=True)
    click.echo(found.text, nl=False)
    return exit_codes.FAILED if lost else exit_codes.DONE


def _convert_config_file(file: pathlib.Path, *, is_properties: bool) -> ConvertedFile:
    text = config_loader.read_config_text(file)
    if is_properties:
        return properties_conversion.convert_to_yaml(
            mm2_properties.translate_properties(text), folder=pathlib.Path.cwd()
        )
    root = yaml_parser.parse_yaml(text).root
    assert isinstance(root, YamlSection), "a valid configuration file has a section as its root"
    return properties_conversion.convert_to_properties(root, folder=file.parent)


def _find_lost_settings(text: str, before: Mm2Settings, *, is_properties: bool) -> list[str]:
    """Return the settings of the original file (`before`) that are missing or different in the
    converted text."""
    read = (
        config_loader.parse_clusters_yaml if is_properties else config_loader.parse_mm2_properties
    )
    try:
        after = read(text, file="the result", folder=pathlib.Path.cwd(), environment=os.environ)
    except SettingsError as error:
        return [each.describe(error.file) for each in error.problems]
    return properties_conversion.diff_settings(before, after)
