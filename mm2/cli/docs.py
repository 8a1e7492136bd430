"""`mm2 docs`: prints the reference of configuration keys, metrics and exit codes as Markdown.

The pages are generated from the declarations of metrics, configuration keys and exit codes. The
generated pages are committed in `docs/guides/`; a test verifies that they are up to date.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from connect_runtime.base.metrics import Metric
from connect_runtime.config import worker_config_keys
from connect_runtime.protocol import security_settings
from connect_runtime.worker import connect_metrics_registry
from mm2 import exit_codes
from mm2.config import (
    client_config_keys,
    config_key_descriptions,
    config_loader,
    copy_engine_config,
    endpoints_section,
    flow_config_keys,
    hooks_section,
    mm2_only_keys,
    mm2_property_keys,
    spark_section,
)
from mm2.config.yaml_section_reader import ConfigOption
from mm2.connectors import connector_metrics
from mm2.metrics import metric_declarations

_MINIMAL_FILE = """
clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}
flows: [{from: a, to: b}]
"""

# Metrics

_METRICS_INTRO = """# Metrics

`mm2 docs metrics` generates this page.

`mm2 run` serves metrics for Prometheus at `http://127.0.0.1:9464/metrics` (`metrics.host`, \
`metrics.port`).
If another process uses the metrics port, mm2 does not start and exits with code 1, because \
probes and Prometheus would query the other process.
If `required` in the section `metrics` is false, mm2 logs a warning instead and runs without \
metrics and `/health`.

If a value is unknown, its time series is absent, never 0, so alerts must also check for absent \
metrics.
If several nodes share a flow, each node reports only the tasks that it runs.

## Metrics of mm2

The label `flow` is `<source>-><target>`, and `topic` is the topic's name on the source.
"""
_BUCKETS_SENTENCE = (
    "The buckets of the histogram `mm2_replication_latency_seconds` have the upper bounds "
    "{bounds} seconds."
)
_BY_PARTITION_SENTENCE = (
    "If `by` in the section `metrics` is `partition`, mm2 also serves metrics of each partition:"
)
_WORKER_METRICS_INTRO = """## Metrics of each flow's Connect worker

The Connect worker of each flow exports Kafka Connect's metrics, with the additional label `flow`.
The metric names are the names that Strimzi's rules for the JMX exporter produce.
"""
_JAVA_METRICS_INTRO = """## Metrics with MirrorMaker 2's names

`/metrics/java` serves the metrics that dashboards and alerts for MirrorMaker 2 use, and Connect's \
metrics.
`/metrics/java` serves at least a dozen time series per partition.
In these metrics, the label `topic` is the topic's name on the target.
The key `metric.names.formats` of a flow selects `legacy` or `new` names.

| names | origin |
|---|---|
| `kafka_connect_mirror_mirrorsourceconnector_…`, `…mirrorcheckpointconnector_…` | `legacy`, as \
Strimzi's exporter rules name them |
| `kafka_connect_mirror_source_connector_…`, `…checkpoint_connector_…` | `legacy`, as other \
exporter rules name them |
| `kafka_connect_plugins_…` | `new` (KIP-1280), with the labels `connector` and `task` |
| `kafka_connect_connect_worker_metrics_…`, `kafka_connect_worker_metrics_…` and others | \
Connect's metrics, with the full group name, or without `connect-` |
| `kafka_consumer_fetch_manager_records_lag`, \
`kafka_consumer_consumer_fetch_manager_metrics_records_lag` | lag of MirrorMaker 2's \
source consumer |
"""
_HEALTH_INTRO = """## Health

The health endpoints are served on the same port, and on the REST servers of `mm2 run`.
Each endpoint returns HTTP status 200 if healthy and 503 if not, with the reasons in a JSON body.
The query parameter `?flow=east->west` selects one flow.

| path | healthy means |
|---|---|
| `/health/live` | the main loop is running. For liveness probes |
| `/health/ready` | each flow's worker has joined its group, its connectors are configured as in \
the file, and the tasks assigned to this node have started: their copy processes run, and not all \
have failed (or an operator has stopped the flow). The node remains ready while a task restarts. \
For readiness probes |
| `/health/replicating` | every flow is healthy; `mm2 status`, `mm2_flow_healthy` and the status \
page report the same. Both clusters are reachable, no task has failed, no partition is halted, no \
partition has waited for more than 10 seconds, no unreplicated record is about to be deleted, and \
the target has acknowledged a batch (also of heartbeats) within \
`health.replicating.within.seconds`, or replication was known to be caught up at that time. A flow \
that is paused, stopped, starting or without topics is not healthy; a flow that other nodes \
replicate is healthy. For alerts, not for probes |"""


def render_metrics_page() -> str:
    """Render the reference page of all metrics and health endpoints."""
    return "\n".join(_render_metrics_lines()) + "\n"


def _render_metrics_lines() -> Iterator[str]:
    bounds = ", ".join(f"{each:g}" for each in metric_declarations.REPLICATION_LATENCY.bounds)
    yield _METRICS_INTRO
    yield from _render_metric_table(metric_declarations.ALL_METRICS)
    yield from ("", _BUCKETS_SENTENCE.format(bounds=bounds), "", _BY_PARTITION_SENTENCE, "")
    yield from _render_metric_table(metric_declarations.PARTITION_METRICS)
    yield from ("", _WORKER_METRICS_INTRO)
    groups = [
        each
        for each in connect_metrics_registry.ALL_GROUPS
        if each is not connect_metrics_registry.SINK_TASK
    ]
    of_worker = [
        each
        for group in groups
        for each in connect_metrics_registry.declare_metrics(group).values()
    ]
    yield from _render_metric_table(of_worker, more=("flow",))
    yield from ("", _JAVA_METRICS_INTRO)
    for group in (connector_metrics.SOURCE_METRICS, connector_metrics.CHECKPOINT_METRICS):
        labels = ", ".join(f"`{each}`" for each in group.tags)
        yield from (f"Metrics of `{group.name}`, with the labels {labels}:", "")
        yield from _render_markdown_table(
            ("attribute", "meaning"),
            ((f"`{name.replace('-', '_')}`", text) for name, text in group.attributes.items()),
        )
        yield ""
    yield _HEALTH_INTRO


def _render_metric_table(found: Sequence[Metric], more: tuple[str, ...] = ()) -> Iterator[str]:
    return _render_markdown_table(
        ("metric", "kind", "unit", "labels", "meaning"),
        (
            (
                f"`{each.name}`",
                each.kind.value,
                each.unit,
                ", ".join(f"`{label}`" for label in (*each.labels, *more)),
                each.help,
            )
            for each in found
        ),
    )


# Configuration


def render_configuration_page() -> str:
    """Render the reference page of all keys of `clusters.yaml`."""
    return "\n".join(_render_configuration_lines()) + "\n"


_CONFIGURATION_INTRO = """# Configuration

`mm2 docs configuration` generates this page.
`mm2 config check` reports all problems of a file in one run.
`mm2 config show` prints the effective configuration of workers and connectors, each value with \
its origin, which is a line of the file, `default` (mm2's default), or `MM2 default` \
(MirrorMaker 2's default).

Values may contain `${env:NAME}`, `${file:path:key}` and `${dir:path:file}`.
mm2 never shows the resolved values of these references.
Relative paths are resolved against the directory of the file.
In `mm2.properties`, keys of the sections `spark`, `metrics`, `health` and `drill` have the prefix \
`mm2.`, such as `mm2.metrics.port`.
All other keys of `mm2.properties` are the keys of MirrorMaker 2.

The tables on this page list the defaults for `clusters.yaml`.
In `mm2.properties`, the following keys have MirrorMaker 2's defaults: {java}.
"""
_FLOWS_INTRO = """`flows` is a list with one item per flow, that is, per pair of source and target.
The settings in `defaults` apply to all flows.
Client properties of a single flow have the prefixes `source.consumer.`, `producer.override.`, \
`source.admin.` and `target.admin.`."""
_REST_INTRO = "REST server that the nodes of a Connect group use to communicate with each other."
_WORKER_INTRO = "The Kafka Connect worker of each flow."
_REFUSED_INTRO = """## Rejected keys

mm2 rejects the following keys of MirrorMaker 2, Kafka Connect and Kafka's clients for the reasons \
given in the tables.
mm2 rejects any other key that is not on this page as unknown, and suggests the most similar key.
"""


def _render_configuration_lines() -> Iterator[str]:
    served = _collect_options(endpoints_section)
    steps = ", ".join(f"`{each}`" for each in hooks_section.HOOK_NAMES)
    sections = (
        (
            "clusters",
            "One section per cluster, named after the alias of the cluster.",
            _render_cluster_keys(),
        ),
        (
            "flows, defaults",
            _FLOWS_INTRO,
            _render_options(_render_flow_options(), config_key_descriptions.FLOW_HELP),
        ),
        ("spark", "Where copy processes run.", _render_spark_options()),
        (
            "metrics",
            "The HTTP endpoint of metrics, health checks and the status page.",
            _render_options(served, config_key_descriptions.METRICS_HELP),
        ),
        (
            "health",
            "Health thresholds.",
            _render_options(served, config_key_descriptions.HEALTH_HELP),
        ),
        ("drill", "Failover drills.", _render_options(served, config_key_descriptions.DRILL_HELP)),
        (
            "rest",
            _REST_INTRO,
            _render_worker_keys(config_key_descriptions.REST_HELP, endpoints_section.REST_KEYS),
        ),
        (
            "worker",
            _WORKER_INTRO,
            _render_worker_keys(config_key_descriptions.WORKER_HELP, endpoints_section.WORKER_KEYS),
        ),
        (
            "hooks",
            f"Commands to run at steps of a failover or failback, one section per step: {steps}.",
            _render_options(_collect_options(hooks_section), config_key_descriptions.HOOKS_HELP),
        ),
    )
    java = {
        **mm2_property_keys.JAVA_FLOW_DEFAULTS,
        **mm2_property_keys.JAVA_WORKER_DEFAULTS,
        **mm2_property_keys.JAVA_REST_DEFAULTS,
    }
    told = ", ".join(f"`{key}={value}`" for key, value in java.items())
    yield _CONFIGURATION_INTRO.replace("{java}", told)
    for name, text, rows in sections:
        yield from (f"## {name}", "", text, "")
        yield from _render_markdown_table(("key", "default", "allowed", "meaning"), rows)
        yield ""
    yield from _render_refused_keys()


def _render_cluster_keys() -> Iterator[tuple[str, ...]]:
    for name, kind in sorted(client_config_keys.SUPPORTED_PROPERTIES.items()):
        default = "required" if name == "bootstrap.servers" else ""
        yield f"`{name}`", default, kind.allowed, "As in Kafka's clients."
    names = ", ".join(f"`{each}`" for each in sorted(security_settings.SUPPORTED_KEYS))
    yield names, "", "", "Security settings, as in Kafka's clients."
    yield (
        "`consumer.…`, `producer.…`, `admin.…`",
        "",
        "any of the above",
        "Applies only to consumers, producers or admin clients.",
    )


def _render_flow_options() -> dict[str, ConfigOption[Any]]:
    found = _collect_options(flow_config_keys)
    both = (*flow_config_keys.CONNECTOR_OPTIONS, *flow_config_keys.CLASS_OPTIONS)
    found |= {each.name: each for each in both}
    return found | {each.name: each.option for each in mm2_only_keys.ALL}


def _collect_options(module: object) -> dict[str, ConfigOption[Any]]:
    """Return the `ConfigOption` constants that a module declares, by option name."""
    found = (each for each in vars(module).values() if isinstance(each, ConfigOption))
    return {each.name: each for each in found}


def _render_options(
    found: Mapping[str, ConfigOption[Any]], told: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    required = {flow_config_keys.SOURCE.name, flow_config_keys.TARGET.name, "command"}
    for name, meaning in told.items():
        option = found[name]
        default = "required" if name in required else _format_default_value(option.default)
        if option in flow_config_keys.FACTOR_OPTIONS:
            default = f"as `{flow_config_keys.REPLICATION_FACTOR.name}`"
        yield f"`{name}`", default, _escape_markdown(option.kind.allowed), meaning


def _render_spark_options() -> Iterator[tuple[str, ...]]:
    found = _collect_options(spark_section)
    for kind, names in (
        (copy_engine_config.HOST, copy_engine_config.DRIVER_HOSTS),
        (copy_engine_config.PORT, copy_engine_config.DRIVER_PORTS),
    ):
        found |= {name: ConfigOption(name=name, kind=kind, default=None) for name in names}
    told = {
        name: text for name, text in config_key_descriptions.SPARK_HELP.items() if name != "conf"
    }
    yield from _render_options(found, told)
    yield "`conf`", "", "a section of `spark.…` keys", config_key_descriptions.SPARK_HELP["conf"]


def _render_worker_keys(told: Mapping[str, str], names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Render table rows of Connect keys.

    The default is mm2's default in `clusters.yaml` if mm2 has one, otherwise Connect's.
    """
    folder = pathlib.Path("/")
    least = config_loader.parse_clusters_yaml(
        _MINIMAL_FILE, file="least", folder=folder, environment={}
    ).flat.props
    declared = {**worker_config_keys.COMMON.keys, **worker_config_keys.DISTRIBUTED.keys}
    assert set(names) == set(told)
    for name, meaning in told.items():
        ours = least.get(f"b.{name}", least.get(name))
        key = declared.get(name)
        usual = key.default if key is not None and key.has_default else None
        usual = (
            mm2_property_keys.ALL_OVERRIDES if name == mm2_property_keys.OVERRIDE_POLICY else usual
        )
        default = ours if ours is not None else usual
        yield (
            f"`{name}`",
            _format_default_value(_format_plain_value(default)),
            "as in Kafka Connect",
            meaning,
        )


def _format_plain_value(value: object) -> str | tuple[str, ...] | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return tuple(map(str, value))
    return None if value is None else str(value)


def _render_refused_keys() -> Iterator[str]:
    yield _REFUSED_INTRO
    families = {f"{name}…": why for name, why in flow_config_keys.REFUSED_PREFIXES.items()}
    for where, found in (
        ("flow", {**flow_config_keys.REFUSED_KEYS, **families}),
        ("cluster", client_config_keys.REFUSED_PROPERTIES),
    ):
        rows = ((f"`{name}`", _escape_markdown(why)) for name, why in sorted(found.items()))
        yield from _render_markdown_table((f"{where} key", "reason"), rows)
        yield ""


# Tables


def _format_default_value(default: str | tuple[str, ...] | None) -> str:
    if default is None:
        return ""
    if isinstance(default, tuple):
        return ", ".join(f"`{each}`" for each in default) or "none"
    return f"`{default}`" if default else "empty"


def _escape_markdown(text: str) -> str:
    """Escape `*` and `<`, for example in regular expressions, because Markdown interprets them."""
    return text.replace("*", r"\*").replace("<", r"\<")


def _render_markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for cells in rows:
        yield "| " + " | ".join(each.replace("|", r"\|") for each in cells) + " |"


@click.command("docs")
@click.argument("what", type=click.Choice(["configuration", "exit-codes", "metrics"]))
def docs_command(*, what: str) -> None:
    """Print a reference page as Markdown: all configuration keys, exit codes or metrics.

    \b
    Examples:
      mm2 docs configuration
      mm2 docs exit-codes
      mm2 docs metrics
    """

    pages = {
        "configuration": render_configuration_page,
        "exit-codes": exit_codes.render_exit_codes_page,
        "metrics": render_metrics_page,
    }
    click.echo(pages[what](), nl=False)
