"""The reference of every metric and of every configuration key, as Markdown.

Made of declarations alone, so that it cannot say anything else than the program does:
`core/measures`, the readers of `settings` and their `meanings`. `deploy/guides/` holds what comes
of it, and a test compares.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from connect_runtime.base import metrics
from connect_runtime.core.task import metric_groups, metric_names, worker_keys
from connect_runtime.wire.codec import security_settings
from mm2.app.settings import (
    endpoint_reader,
    flow_options,
    hooks_reader,
    load,
    meanings,
    reader,
    spark_reader,
)
from mm2.app.settings import mirror_maker_keys as keys
from mm2.core import measures, mirror_metrics
from mm2.core.configs import client_properties, engine_settings

_LEAST = """
clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}
flows: [{from: a, to: b}]
"""

# Metrics

_METRICS = """# Metrics

This page is made by `mm2 docs metrics` of the declarations in the program.

`mm2 run` serves them to Prometheus at `http://127.0.0.1:9464/metrics` (`metrics.host`,
`metrics.port`). When the port is in use nothing is started, and the exit code is 2: probes and
Prometheus would ask another process. With `metrics: {required: false}` mm2 runs all the same, has
neither metrics nor `/health` there, and logs a warning.

A figure that nobody can know is left out, never 0: alerts have to look for what is absent, too.
Where several nodes share a flow each shows what it runs itself.

## mm2's own

`flow` is `<source>-><target>`, `topic` a topic's name on the source.
"""
_BUCKETS = "The histogram's buckets end at {bounds} seconds."
_BY_PARTITION = "With `metrics: {by: partition}` there are also:"
_WORKERS = """## Of each flow's Connect worker

Kafka Connect's own, by the names that Strimzi's rules for the JMX exporter give them, with the
label `flow`.
"""
_JAVA = """## By MirrorMaker 2's names

`/metrics/java` serves what dashboards and alerts made for MirrorMaker 2 ask for, and nothing of the
above but what is Connect's. It has a dozen series and more for each partition, and `topic` there is
the topic's name on the target. `metric.names.formats` of a flow chooses between `legacy` and `new`.

| names | where they come from |
|---|---|
| `kafka_connect_mirror_mirrorsourceconnector_…`, `…mirrorcheckpointconnector_…` | `legacy`, as \
Strimzi spells it |
| `kafka_connect_mirror_source_connector_…`, `…checkpoint_connector_…` | the same, as other \
exporters' rules spell it |
| `kafka_connect_plugins_…` | `new` (KIP-1280), with `connector` and `task` |
| `kafka_connect_connect_worker_metrics_…`, `kafka_connect_worker_metrics_…` and the like | \
Connect's own, with the group's whole name, or without `connect-` |
| `kafka_consumer_fetch_manager_records_lag`, \
`kafka_consumer_consumer_fetch_manager_metrics_records_lag` | the lag of the consumer that \
MirrorMaker 2 would have |
"""
_HEALTH = """## Health

On the same port, and on the REST servers of `mm2 run`: 200 where it is well, 503 where not, with a
JSON body that says why. `?flow=east->west` asks of one flow.

| path | well means |
|---|---|
| `/health/live` | the main loop comes round: for a liveness probe |
| `/health/ready` | each flow's worker has joined its group, its connectors are configured as the \
file says, and the tasks that this node was given have started: their copies run, and not all have \
failed (or an operator has stopped the flow). A task that restarts stays ready: for a readiness \
probe |
| `/health/replicating` | every flow is healthy: the verdict that `mm2 status`, `mm2_flow_healthy` \
and the status page give, too. Both clusters answer, no task has failed and no partition has \
stopped, no partition waits for longer than 10 seconds, nothing is about to be deleted \
unreplicated, and the target has acknowledged a batch (a heartbeat's, too) within \
`health.replicating.within.seconds`, or all of the source was known to be replicated then. A flow \
that is paused, stopped, starting or without topics is not healthy; one that other nodes replicate \
is. For alerts, not for probes |"""


def metrics_page() -> str:
    """Every metric that `mm2 run` serves, and where."""
    return "\n".join(_metrics_lines()) + "\n"


def _metrics_lines() -> Iterator[str]:
    bounds = ", ".join(f"{each:g}" for each in measures.LATENCY.bounds)
    yield _METRICS
    yield from _metric_table(measures.ALL)
    yield from ("", _BUCKETS.format(bounds=bounds), "", _BY_PARTITION, "")
    yield from _metric_table(measures.BY_PARTITION)
    yield from ("", _WORKERS)
    groups = [each for each in metric_names.EVERY if each is not metric_names.SINK_TASK]
    of_worker = [each for group in groups for each in metric_groups.declared(group).values()]
    yield from _metric_table(of_worker, more=("flow",))
    yield from ("", _JAVA)
    for group in (mirror_metrics.SOURCE, mirror_metrics.CHECKPOINT):
        labels = ", ".join(f"`{each}`" for each in group.tags)
        yield from (f"Of `{group.name}`, with the labels {labels}:", "")
        yield from _rows(
            ("attribute", "meaning"),
            ((f"`{name.replace('-', '_')}`", text) for name, text in group.attributes.items()),
        )
        yield ""
    yield _HEALTH


def _metric_table(found: Sequence[metrics.Metric], more: tuple[str, ...] = ()) -> Iterator[str]:
    return _rows(
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


def configuration_page() -> str:
    """Every key of `clusters.yaml`."""
    return "\n".join(_configuration_lines()) + "\n"


_CONFIGURATION = """# Configuration

This page is made by `mm2 docs configuration` of the declarations in the program. `mm2 config check`
reports every mistake of a file at once. `mm2 config show` prints the effective configuration: what
workers and connectors are given, each value with its origin (a line of the file, `default` of mm2,
or `MM2 default`).

Values may hold `${env:NAME}`, `${file:path:key}` and `${dir:path:file}`; what comes from there is
never shown. Relative paths start at the file's folder. In `mm2.properties` keys of the sections
`spark`, `metrics`, `health` and `drill` begin with `mm2.`: `mm2.metrics.port`; all others are
MirrorMaker 2's.

The defaults below are those of `clusters.yaml`. In `mm2.properties` these are MirrorMaker 2's:
{java}.
"""
_FLOWS = """`flows` is a list, an item for each pair from and to; `defaults` holds for all of them.
Properties of single clients go in with `source.consumer.`, `producer.override.`, `source.admin.`
and `target.admin.`."""
_REST = "The server by which the nodes of a flow's group reach each other: Connect's keys."
_WORKER = """The Connect worker that each flow has: Connect's keys, and how often what fails is
started again."""
_REFUSED = """## Refused by name

Keys that MirrorMaker 2, Connect or Kafka's clients know and that cannot be meant here. Any other
key that is not on this page is refused, too, with the nearest one that is.
"""


def _configuration_lines() -> Iterator[str]:
    served = _declared(endpoint_reader)
    steps = ", ".join(f"`{each}`" for each in hooks_reader.NAMES)
    sections = (
        ("clusters", "A section for each cluster, by its alias.", _clusters()),
        ("flows, defaults", _FLOWS, _options(_flow_options(), meanings.FLOWS)),
        ("spark", "Where the copies run.", _spark()),
        ("metrics", "What is served of it.", _options(served, meanings.METRICS)),
        ("health", "What counts as well.", _options(served, meanings.HEALTH)),
        ("drill", "Rehearsals.", _options(served, meanings.DRILL)),
        ("rest", _REST, _of_workers(meanings.REST, endpoint_reader.REST)),
        ("worker", _WORKER, _of_workers(meanings.WORKER, endpoint_reader.WORKER)),
        (
            "hooks",
            f"A section for each step of a move at which a command is run: {steps}.",
            _options(_declared(hooks_reader), meanings.HOOKS),
        ),
    )
    java = {**keys.OF_JAVA_FLOWS, **keys.OF_JAVA_WORKERS, **keys.OF_JAVA_REST}
    told = ", ".join(f"`{key}={value}`" for key, value in java.items())
    yield _CONFIGURATION.replace("{java}", told)
    for name, text, rows in sections:
        yield from (f"## {name}", "", text, "")
        yield from _rows(("key", "default", "allowed", "meaning"), rows)
        yield ""
    yield from _refused()


def _clusters() -> Iterator[tuple[str, ...]]:
    for name, kind in sorted(client_properties.TAKEN.items()):
        default = "required" if name == "bootstrap.servers" else ""
        yield f"`{name}`", default, kind.allowed, "As Kafka's clients know it."
    names = ", ".join(f"`{each}`" for each in sorted(security_settings.SUPPORTED))
    yield names, "", "", "Security, as Kafka's clients know it."
    yield (
        "`consumer.…`, `producer.…`, `admin.…`",
        "",
        "any of the above",
        "For one kind of client alone.",
    )


def _flow_options() -> dict[str, reader.Option[Any]]:
    found = _declared(flow_options)
    both = (*flow_options.CONNECTORS, *flow_options.CLASSES)
    found |= {each.name: each for each in both}
    exclusive = flow_options.target_topics(flow_options.DEFAULT_POLICY)
    return found | {exclusive.name: exclusive}


def _declared(module: object) -> dict[str, reader.Option[Any]]:
    """Options that a reader declares, by their names."""
    found = (each for each in vars(module).values() if isinstance(each, reader.Option))
    return {each.name: each for each in found}


def _options(
    found: Mapping[str, reader.Option[Any]], told: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    required = {flow_options.SOURCE.name, flow_options.TARGET.name, "command"}
    for name, meaning in told.items():
        option = found[name]
        default = "required" if name in required else _default(option.default)
        if option in flow_options.FACTORS:
            default = f"as `{flow_options.REPLICATION_FACTOR.name}`"
        yield f"`{name}`", default, _code(option.kind.allowed), meaning


def _spark() -> Iterator[tuple[str, ...]]:
    found = _declared(spark_reader)
    for kind, names in (
        (engine_settings.HOST, engine_settings.DRIVER_HOSTS),
        (engine_settings.PORT, engine_settings.DRIVER_PORTS),
    ):
        found |= {name: reader.Option(name=name, kind=kind, default=None) for name in names}
    told = {name: text for name, text in meanings.SPARK.items() if name != "conf"}
    yield from _options(found, told)
    yield "`conf`", "", "a section of `spark.…` keys", meanings.SPARK["conf"]


def _of_workers(told: Mapping[str, str], names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Their defaults in YAML, where these are ours; else Connect's."""
    folder = pathlib.Path("/")
    least = load.parse(_LEAST, file="least", folder=folder, environment={}).flat.props
    declared = {**worker_keys.COMMON.keys, **worker_keys.DISTRIBUTED.keys}
    assert set(names) == set(told)
    for name, meaning in told.items():
        ours = least.get(f"b.{name}", least.get(name))
        key = declared.get(name)
        usual = key.default if key is not None and key.has_default else None
        usual = keys.ALL_OVERRIDES if name == keys.OVERRIDE_POLICY else usual
        default = ours if ours is not None else usual
        yield f"`{name}`", _default(_plain(default)), "as in Kafka Connect", meaning


def _plain(value: object) -> str | tuple[str, ...] | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return tuple(map(str, value))
    return None if value is None else str(value)


def _refused() -> Iterator[str]:
    yield _REFUSED
    families = {f"{name}…": why for name, why in flow_options.REFUSED_FAMILIES.items()}
    for where, found in (
        ("flow", {**flow_options.REFUSED, **families}),
        ("cluster", client_properties.REFUSED),
    ):
        rows = ((f"`{name}`", _code(why)) for name, why in sorted(found.items()))
        yield from _rows((f"key of a {where}", "why"), rows)
        yield ""


# Tables


def _default(default: str | tuple[str, ...] | None) -> str:
    if default is None:
        return ""
    if isinstance(default, tuple):
        return ", ".join(f"`{each}`" for each in default) or "none"
    return f"`{default}`" if default else "empty"


def _code(text: str) -> str:
    """Expressions in a text must not be taken for Markdown."""
    return text.replace("*", r"\*").replace("<", r"\<")


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for cells in rows:
        yield "| " + " | ".join(each.replace("|", r"\|") for each in cells) + " |"
