"""`mm2 probe`: tests on both clusters whether exactly-once delivery is possible."""

from __future__ import annotations

import json
import os
import pathlib
import random

import click

from connect_runtime.system.system_clock import SystemClock
from mm2 import exit_codes
from mm2.cli import options, terminal_output
from mm2.config import config_loader
from mm2.replication.cluster_capabilities import DeliveryAssessment, DeliveryGuarantee


@click.command("probe")
@options.config_argument
@click.option("--flow", "flow_name", metavar="FLOW", help="Only this flow.  [default: all]")
@options.json_option
def probe_command(*, file: pathlib.Path, flow_name: str | None, as_json: bool) -> int:
    """Test on the clusters of FILE (default: clusters.yaml) whether exactly-once delivery is
    possible, and if not, why.

    Writes a few records to the internal topic mm2-probe.internal on each target cluster.

    \b
    Examples:
      mm2 probe clusters.yaml
      mm2 probe clusters.yaml --flow 'east->west' --json
    """
    settings = config_loader.load_config_file(file, environment=os.environ)
    chosen = (
        settings.flows
        if flow_name is None
        else (options.find_flow(settings, flow_name, hint="--flow"),)
    )
    # Imported here so that invalid input is reported before Kafka's client library is loaded.
    from mm2.cli import library_log_redirection
    from mm2.clusters import flow_kafka_clients, reachability_probe
    from mm2.preflight import delivery_guarantee_probe

    clock = SystemClock()
    with library_log_redirection.redirect_library_logs():
        for flow in chosen:
            reachability_probe.require_reachable_clusters(
                [
                    flow_kafka_clients.build_source_admin_connection_settings(settings, flow),
                    flow_kafka_clients.build_target_admin_connection_settings(settings, flow),
                ],
                timeout_s=delivery_guarantee_probe.PROBE_TIMEOUT_S,
                print_line=lambda line: terminal_output.print_line(line, err=True),
                clock=clock,
            )
        found = [
            delivery_guarantee_probe.probe_flow(
                settings, flow, clock=clock, random=random.SystemRandom()
            )
            for flow in chosen
        ]
    if as_json:
        flows = [each.as_json() for each in found]
        click.echo(
            json.dumps(
                {"version": delivery_guarantee_probe.PROBE_JSON_VERSION, "flows": flows}, indent=2
            )
        )
    else:
        for each in found:
            for line in each.format_lines():
                terminal_output.print_line(line)
    return exit_codes.combine_exit_codes([_choose_exit_code(each.verdict) for each in found])


def _choose_exit_code(verdict: DeliveryAssessment) -> int:
    if verdict.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        return exit_codes.FAILED
    return exit_codes.DONE if verdict.is_verified else exit_codes.UNKNOWN
