"""`mm2 check`: preflight of network, TLS, authentication, ACLs, topics and settings."""

from __future__ import annotations

import json
import os
import pathlib
import random

import click

from connect_runtime.config import config_errors
from connect_runtime.system.system_clock import SystemClock
from mm2 import exit_codes
from mm2.cli import options, terminal_output
from mm2.config import config_loader
from mm2.preflight.check_report import CheckResult


@click.command("check")
@options.config_argument
@click.option("--flow", "flow_name", metavar="FLOW", help="Only this flow.  [default: all]")
@options.json_option
@options.timeout_option(10.0, "How long to wait for each response from a cluster.")
def check_command(
    *, file: pathlib.Path, flow_name: str | None, as_json: bool, timeout_s: float
) -> int:
    """Preflight: verify DNS, network, TLS, authentication, ACLs, topics and settings of both
    clusters of every flow, and Spark's slots, without replicating anything.

    Lists all problems at once, each with its consequence and the command that fixes it or shows
    more. `mm2 config check` validates the file alone, without connecting to a cluster.

    \b
    Examples:
      mm2 check clusters.yaml
      mm2 check clusters.yaml --flow 'east->west' --json
    """
    with config_errors.add_consequence_to_settings_error("no cluster was contacted"):
        settings = config_loader.load_config_file(file, environment=os.environ)
    for line in settings.format_warnings():
        terminal_output.print_line(f"warning: {line}", err=True)
    names = (
        [] if flow_name is None else [options.find_flow(settings, flow_name, hint="--flow").name]
    )
    # Imported here so that invalid input is reported before Kafka's client library is loaded.
    from mm2.cli import library_log_redirection
    from mm2.preflight import check_report
    from mm2.preflight.preflight_check import PreflightCheck

    with library_log_redirection.redirect_library_logs():
        report = PreflightCheck(
            settings,
            names,
            environment=os.environ,
            clock=SystemClock(),
            random=random.SystemRandom(),
            timeout_s=timeout_s,
        ).run()
    if as_json:
        click.echo(json.dumps(check_report.report_to_json(report, str(file)), indent=2))
    else:
        for line in check_report.format_report(report):
            terminal_output.print_line(line)
    if report.are_all_clusters_unreachable(settings.clusters):
        return exit_codes.UNREACHABLE
    return exit_codes.FAILED if report.verdict is CheckResult.FAILED else exit_codes.DONE
