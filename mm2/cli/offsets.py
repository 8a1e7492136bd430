"""`mm2 offsets translate`, `rebuild`, `skip`: translate offsets and repair the offset map.

`rebuild` restores a lost offset map by comparing both logs; `skip` discards an unreadable offset
map record.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import random
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.system_clock import SystemClock
from mm2 import exit_codes
from mm2.cli import options, terminal_output, topic
from mm2.config import (
    config_loader,
    config_value_types,
    copy_engine_config,
    flow_connector_configs,
    mirror_connector_config_keys,
)
from mm2.config.copy_engine_config import EngineSettings
from mm2.config.mm2_settings import ClusterSettings, Mm2Settings
from mm2.topics import replication_policy
from mm2.topics.flow_config import Flow

if TYPE_CHECKING:
    from connect_runtime.base.clock_and_deadline import Clock
    from mm2.cli.offset_translation_output import TranslationResult
    from mm2.client.offset_translator import OffsetTranslator, TranslationClusterPair
    from mm2.client.translation_outcomes import Place
    from mm2.clusters.flow_cluster_pair import FlowPair
    from mm2.connectors.flow_state_store import FlowStateStore
    from mm2.repair.offset_map_rebuild import RebuildContext


@dataclass(frozen=True, slots=True, kw_only=True)
class LogComparisonOptions:
    """Command-line options of `mm2 offsets rebuild` that control the comparison of the two logs."""

    engine: EngineSettings
    timeout_s: float
    memory_gb: float
    all_differ: bool


@click.command("rebuild", short_help="Rebuild a lost or incomplete offset map.")
@click.option("--topic", "topics", multiple=True, metavar="T", help="Only this topic; repeatable.")
@click.option(
    "--flow", metavar="FLOW", help=("Flow to repair.  [default: the only flow in the file]")
)
@options.config_option("Configuration file that defines the flow.")
@click.option("--dry-run", is_flag=True, help="Compare the logs without writing anything.")
@click.option(
    "--engine",
    type=click.Choice([copy_engine_config.SPARK, copy_engine_config.INLINE]),
    help=(
        "Engine that compares the logs: Spark, or threads of this process (inline).  "
        "[default: engine in the configuration file]"
    ),
)
@options.timeout_option(3600.0, "Time limit for the comparison.")
@click.option(
    "--all-differ",
    is_flag=True,
    help=(
        "Assume that no two records of a partition are identical in timestamp, key, value and "
        "headers. Results are more exact, especially for compacted topics, but wrong if the "
        "assumption is false."
    ),
)
@click.option(
    "--memory-gb",
    type=click.FloatRange(min=0, min_open=True),
    default=4.0,
    show_default=True,
    metavar="GB",
    help="Total memory limit for all comparison processes (at most eight).",
)
@options.json_option
def rebuild_command(
    *,
    topics: tuple[str, ...],
    flow: str | None,
    file: pathlib.Path,
    dry_run: bool,
    engine: str | None,
    as_json: bool,
    **comparing: Any,
) -> int:
    """Rebuild a lost or incomplete offset map by comparing both logs, record by record.

    If the map has no entry for a replicated partition, stop the flow before running this command.
    When the flow is started again, it resumes at the rebuilt position. Records that Java
    MirrorMaker 2 replicated before the takeover can be added while the flow runs. If a record has
    identical copies that cannot be matched one to one, its offset is translated to an earlier one.

    \b
    Examples:
      mm2 offsets rebuild
      mm2 offsets rebuild --flow 'east->west' --topic orders --dry-run
      mm2 offsets rebuild --engine inline --json
    """
    settings = config_loader.load_config_file(file, environment=os.environ)
    chosen = options.find_named_or_only_flow(settings, flow, hint="--flow")
    spark = settings.spark
    if engine is not None:
        spark = dataclasses.replace(spark, engine=engine)
    # Imported here so that invalid input is reported before Kafka's client library is loaded.
    from mm2.cli import library_log_redirection
    from mm2.clusters import flow_kafka_clients
    from mm2.clusters.flow_cluster_pair import FlowPair
    from mm2.repair import offset_map_rebuild
    from mm2.repair.offset_map_rebuild import MapRebuild

    clock = SystemClock()
    with (
        library_log_redirection.redirect_library_logs(),
        FlowPair(settings, chosen, purpose="rebuild", clock=clock) as both,
    ):
        client_id = f"mm2-{chosen.name}-rebuild"
        store = flow_kafka_clients.create_flow_state_store(
            settings, chosen, client_id=client_id, clock=clock
        )
        how = LogComparisonOptions(**comparing, engine=spark)
        tools = _build_rebuild_context(settings, both, store, how=how, quiet=as_json)
        run = MapRebuild(tools, writes=not dry_run)
        try:
            run.run(topics)
        finally:
            store.close(1.0)
    found = list(run.results.values())
    if as_json:
        click.echo(json.dumps(offset_map_rebuild.rebuild_to_json(chosen.name, found), indent=2))
    else:
        for line in offset_map_rebuild.format_rebuild_results(found):
            terminal_output.print_line(line)
    return exit_codes.DONE if all(each.is_complete for each in found) else exit_codes.FAILED


def _build_rebuild_context(
    settings: Mm2Settings,
    both: FlowPair,
    store: FlowStateStore,
    *,
    how: LogComparisonOptions,
    quiet: bool,
) -> RebuildContext:
    from mm2.clusters import flow_kafka_clients, replication_progress
    from mm2.copier.blocking_client import BlockingClient
    from mm2.copier.control_channel_messages import CopyConfiguration
    from mm2.repair import offset_map_rebuild
    from mm2.repair.offset_map_rebuild import RebuildContext
    from mm2.replication import record_transforms

    clock, flow = SystemClock(), both.flow
    clients = settings.get_clients(flow)
    client_id = f"mm2-{flow.name}-rebuild"
    plan = flow_connector_configs.plan_flow(settings, flow, environment=os.environ)
    wire = flow_kafka_clients.build_protocol_client_connection_settings(
        clients.producer, flow.target, client_id=client_id
    )
    reaching = CopyConfiguration(
        flow=flow.name,
        task=0,
        owner=b"",
        source=flow_kafka_clients.build_copy_process_connection_settings(
            clients.consumer, flow.source, client_id=client_id
        ),
        target=flow_kafka_clients.build_copy_process_connection_settings(
            clients.producer, flow.target, client_id=client_id
        ),
        partitions=(),
        budget_bytes=0,
        transforms=record_transforms.select_transform_keys(plan.source_config),
    )
    return RebuildContext(
        pair=both,
        store=store,
        connect=lambda: BlockingClient(wire, clock=clock, random=random.SystemRandom()),
        copy_config=reaching,
        worker_props=plan.worker_props,
        engine=how.engine,
        read_reverse_map=lambda: replication_progress.read_offset_map(
            both.source, flow.target, offset_map_rebuild.REQUEST_TIMEOUT_S
        ),
        clock=clock,
        sleep=threading.Event().wait,
        print_line=lambda line: terminal_output.print_line(line, err=True) if not quiet else None,
        timeout_s=how.timeout_s,
        memory_bytes=int(how.memory_gb * 10**9),
        all_differ=how.all_differ,
    )


@click.command("skip", short_help="Skip an unreadable record of an offset map.")
@click.argument("flow", metavar="FLOW")
@click.option(
    "--offset",
    required=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="Offset of the record in the flow's topic mm2-offset-map.<source>.internal.",
)
@click.option(
    "--from",
    "start",
    metavar="earliest|latest|TIMESTAMP|offset:N",
    help=(
        "Position from which the partition restarts; required if the record describes an era (a "
        "period of uninterrupted replication of a partition), otherwise rejected."
    ),
)
@options.config_option("Configuration file that defines the flow.")
@options.json_option
def skip_command(
    *, flow: str, offset: int, start: str | None, file: pathlib.Path, as_json: bool
) -> int:
    """Skip a record of a flow's offset map that cannot be read.

    Resolves the halt [offset-map-unreadable] if another program wrote the record. If a newer
    release of mm2 wrote it, run that release instead: skipping discards the record's content.

    The command stores an incident that names the record, then replaces the record with a tombstone.
    Halted partitions of a running flow resume at their next retry: within 15 seconds at first,
    within 10 minutes if they have been halted for long. A readable record is never skipped.

    An era is a period of uninterrupted replication of a partition. Without the record of its era,
    a partition cannot resume where it was: it begins again at the position --from, as with
    mm2 topic reset, and another incident records this. A record of a producer id is written again
    instead of deleted, so that records of this producer still count as the flow's own.

    \b
    Examples:
      mm2 offsets skip 'east->west' --offset 1204
      mm2 offsets skip 'east->west' --offset 1204 --from earliest
    """
    position = None if start is None else topic.parse_reset_position(start)
    settings = config_loader.load_config_file(file, environment=os.environ)
    chosen = options.find_flow(settings, flow, hint="FLOW")
    # Imported here so that invalid input is reported before Kafka's client library is loaded.
    from mm2.cli import library_log_redirection
    from mm2.clusters import flow_kafka_clients
    from mm2.repair import offset_map_record_skip
    from mm2.repair.offset_map_record_skip import NothingToSkipError

    clock = SystemClock()
    with library_log_redirection.redirect_library_logs():
        client_id = f"mm2-{chosen.name}-skip"
        store = flow_kafka_clients.create_flow_state_store(
            settings, chosen, client_id=client_id, clock=clock
        )
        try:
            found = offset_map_record_skip.skip_unreadable_record(
                store, chosen, offset, position=position, clock=clock
            )
        except NothingToSkipError as error:
            raise click.UsageError(str(error)) from error
        finally:
            store.close(1.0)
    map_topic = replication_policy.format_offset_map_topic(chosen.source)
    named = found.partition
    concerned = "all partitions" if named is None else f"all partitions of topic {named.topic}"
    again = "" if position is None else f"; {named} restarts from {position}"
    if as_json:
        said = {
            "flow": chosen.name,
            "topic": map_topic,
            "offset": offset,
            "reason": found.why,
            "partition": None if named is None else str(named),
            "from": position,
        }
        click.echo(json.dumps(said, indent=2))
    else:
        terminal_output.print_line(
            f"{map_topic} of cluster {chosen.target}: skipped the record at offset {offset} "
            f"({found.why}), which halted {concerned} of {chosen.name}{again}; mm2 incidents lists "
            "it"
        )
    return exit_codes.DONE


_OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationQuery:
    """Command-line options of `mm2 offsets translate`."""

    groups: tuple[str, ...]
    topic: str | None
    partitions: tuple[int, ...]
    offset: int | None
    timestamp_ms: int | None
    back: bool
    flow: str | None
    file: pathlib.Path
    timeout_s: float
    as_json: bool
    as_csv: bool


@click.group("offsets")
def offsets_group() -> None:
    """Translate offsets between the clusters of a flow, and repair its offset map."""


def _parse_timestamp(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    if re.fullmatch("[0-9]{1,15}", text) and int(text) <= config_value_types.MAX_TIMESTAMP_MS:
        return int(text)
    kind = config_value_types.start_position_type()
    try:
        found = kind.parse((text,)).timestamp_ms
    except ValueError:
        found = None
    if found is None:
        raise click.BadParameter(
            f"{text!r}; allowed: a time such as 2026-01-31T08:00:00Z, or milliseconds since 1970"
        )
    return int(found)


@offsets_group.command("translate", short_help="Translate offsets between the clusters.")
@click.option("--group", "groups", multiple=True, metavar="G", help="Consumer group; repeatable.")
@click.option("--topic", metavar="T", help="Topic, by its name on the origin cluster.")
@options.partitions_option("P", "Partition of the topic; repeatable.")
@click.option(
    "--offset",
    type=click.IntRange(min=0, max=_OFFSET_MAX),
    metavar="N",
    help="Offset that a consumer would resume from.",
)
@click.option(
    "--timestamp",
    "timestamp_ms",
    callback=_parse_timestamp,
    metavar="TIME",
    help="Time instead of an offset, such as 2026-01-31T08:00:00Z, or milliseconds since 1970.",
)
@click.option("--back", is_flag=True, help="Translate from the flow's target to its source.")
@click.option("--flow", metavar="FLOW", help="Flow to use.  [default: the only flow in the file]")
@options.config_option("Configuration file that defines the flow.")
@options.timeout_option(60.0, "Time limit for each translation, including reading the offset map.")
@options.json_option
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print CSV for kafka-consumer-groups --reset-offsets."
)
def translate_command(**given: Any) -> int:
    """Translate offsets of a flow's source cluster to its target cluster, or the reverse.

    With --group: every committed offset of the group, or its last checkpoints if the source does
    not respond. --csv prints the file that kafka-consumer-groups --reset-offsets --from-file reads.
    BASIS shows how OFFSET was determined: "committed", "checkpoint" with its age, the offset "as
    given", or the offset of a time.

    \b
    exact               no record is re-read or missed
    earlier             no record is missed; up to RE-READS records are re-read, or an
                        unknown number if the basis is a checkpoint
    not ready           not replicated or not yet recorded in the offset map: retry later, or
                        resume at the last replicated offset
    too old             before the first known offset of the mirror topic
    unknown             nothing is known about this partition
    beyond the log end  the offset does not exist on the origin cluster

    \b
    Examples:
      mm2 offsets translate --group billing
      mm2 offsets translate --group billing --csv > billing.csv
      mm2 offsets translate --topic orders --partition 3 --offset 4711 --flow 'east->west'
      mm2 offsets translate --topic orders --partition 0 --timestamp 2026-01-31T08:00:00Z
      mm2 offsets translate --group billing --back --json
    """
    question = TranslationQuery(**given)
    _check_translation_query(question)
    settings = config_loader.load_config_file(question.file, environment=os.environ)
    flow = options.find_named_or_only_flow(settings, question.flow, hint="--flow")
    # Imported here so that invalid input is reported before Kafka's client library is loaded.
    from mm2.cli import library_log_redirection
    from mm2.client.offset_translator import OffsetTranslator

    clock = SystemClock()
    with library_log_redirection.redirect_library_logs():
        link = _build_translation_cluster_pair(settings, flow, clock=clock)
        with OffsetTranslator(link, timeout_s=question.timeout_s, clock=clock) as translator:
            answer = _translate_offsets(question, flow, translator, at_ms=clock.wall_ms())
    _print_translation(question, answer)
    return exit_codes.DONE if answer.is_complete else exit_codes.FAILED


def _build_translation_cluster_pair(
    settings: Mm2Settings, flow: Flow, *, clock: Clock
) -> TranslationClusterPair:
    """Build the `TranslationClusterPair` for translating offsets between the flow's clusters.
    Raises `FatalError` if settings are invalid."""
    from mm2.client.offset_translator import TranslationClusterPair
    from mm2.clusters import flow_kafka_clients
    from mm2.kafka.kafka_cluster import KafkaCluster

    def create_cluster_clients(
        listing: ClusterSettings, reading: ClusterSettings, alias: str
    ) -> KafkaCluster:
        return KafkaCluster(
            flow_kafka_clients.build_librdkafka_connection_settings(listing, alias),
            flow_kafka_clients.build_librdkafka_connection_settings(reading, alias),
            client_id=f"mm2-{flow.name}-offsets",
            clock=clock,
        )

    clients = settings.get_clients(flow)
    config = flow_connector_configs.plan_flow(settings, flow, environment=os.environ).source_config
    return TranslationClusterPair(
        target=create_cluster_clients(
            clients.target_admin, settings.clusters[flow.target], flow.target
        ),
        source=create_cluster_clients(clients.source_admin, clients.consumer, flow.source),
        source_alias=flow.source,
        target_alias=flow.target,
        policy=flow.policy,
        syncs_on_source=config.get(mirror_connector_config_keys.SYNCS_TOPIC_LOCATION) != "target",
    )


def _check_translation_query(question: TranslationQuery) -> None:
    place = question.offset is not None, question.timestamp_ms is not None
    if bool(question.groups) == (question.topic is not None):
        raise click.UsageError("pass either --group, or --topic with --partition")
    if question.groups and (question.partitions or any(place)):
        raise click.UsageError("--partition, --offset and --timestamp need --topic, not --group")
    if question.topic is not None and (not question.partitions or sum(place) != 1):
        raise click.UsageError("--topic needs --partition, and either --offset or --timestamp")
    if question.as_json and question.as_csv:
        raise click.UsageError("pass either --json or --csv, not both")


def _translate_offsets(
    question: TranslationQuery,
    flow: Flow,
    translator: OffsetTranslator,
    *,
    at_ms: int,
) -> TranslationResult:
    from mm2.cli.offset_translation_output import TranslationResult

    groups, places = None, []
    if question.groups:
        of_group = translator.translate_group_back if question.back else translator.translate_group
        groups = tuple(map(of_group, question.groups))
    else:
        places = [
            _translate_partition(question, translator, number) for number in question.partitions
        ]
    return TranslationResult(
        at_ms=at_ms,
        flow=flow.name,
        origin=flow.target if question.back else flow.source,
        destination=flow.source if question.back else flow.target,
        groups=groups,
        offsets=tuple(places),
        source_error=translator.source_error,
    )


def _translate_partition(
    question: TranslationQuery, translator: OffsetTranslator, partition: int
) -> Place:
    from mm2.client.translation_outcomes import Basis, Place

    topic, back = question.topic, question.back
    assert topic is not None
    if question.timestamp_ms is not None:
        at_time = translator.translate_timestamp_back if back else translator.translate_timestamp
        return at_time(topic, partition, question.timestamp_ms)
    assert question.offset is not None
    at_offset = translator.translate_back if back else translator.translate
    return Place(
        partition=TopicPartition(topic, partition),
        offset=question.offset,
        outcome=at_offset(topic, partition, question.offset),
        basis=Basis.OFFSET,
    )


def _print_translation(question: TranslationQuery, answer: TranslationResult) -> None:
    from mm2.cli import offset_translation_output  # loads the Kafka client library

    if question.as_json:
        click.echo(json.dumps(offset_translation_output.translation_to_json(answer), indent=2))
    elif question.as_csv:
        click.echo(offset_translation_output.translation_to_csv(answer), nl=False)
        for line in (
            *offset_translation_output.list_omitted_offsets(answer),
            *offset_translation_output.format_translation_notes(answer),
        ):
            terminal_output.print_line(line, err=True)
    else:
        for line in offset_translation_output.format_translation(answer):
            terminal_output.print_line(line)


offsets_group.add_command(rebuild_command)
offsets_group.add_command(skip_command)
