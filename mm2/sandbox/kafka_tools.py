"""Kafka's own command-line tools, run from the sandbox's jars against a sandbox cluster.

Tool names are the names of the scripts in Kafka's `bin`, without `kafka-` and `.sh`. The tools of
the newest release work with all brokers that a sandbox can run.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mm2.sandbox import java_server_process
from mm2.sandbox.sandbox_errors import SandboxError

_TOOLS_PACKAGE = "org.apache.kafka.tools."
_BOOTSTRAP_OPTION = "--bootstrap-server"
_CONFIG_OPTION = "--command-config"
_QUIET_FLAG = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
_HELP_OPTIONS = frozenset({"--help", "-h", "--version"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTool:
    """One of Kafka's command-line tools."""

    main_class: str
    summary: str
    needs_cluster: bool = True
    """True if the tool has the option `--bootstrap-server`."""
    subcommand_first: bool = False
    """True if `--bootstrap-server` must come after the tool's first argument, which is a
    subcommand."""
    prints_log: bool = False
    """True if the tool reports its progress only in its log, so that the log is printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolConnectionConfig:
    """The cluster that a tool connects to.

    `config` is the path of the client properties file, or None if `bootstrap` is sufficient.
    """

    bootstrap: str
    config: Path | None


def _make_kafka_tool(class_name: str, summary: str) -> KafkaTool:
    return KafkaTool(main_class=_TOOLS_PACKAGE + class_name, summary=summary)


TOOLS: Mapping[str, KafkaTool] = {
    "acls": _make_kafka_tool("AclCommand", "List, add and remove ACLs."),
    "broker-api-versions": _make_kafka_tool(
        "BrokerApiVersionsCommand", "Show the APIs that brokers support."
    ),
    "client-metrics": _make_kafka_tool(
        "ClientMetricsCommand", "Manage subscriptions to client metrics."
    ),
    "cluster": KafkaTool(
        main_class=_TOOLS_PACKAGE + "ClusterTool",
        summary="Show the cluster id; list and unregister brokers.",
        subcommand_first=True,
    ),
    "configs": KafkaTool(
        main_class="kafka.admin.ConfigCommand",
        summary="Show and change configs of topics, brokers, users and clients.",
    ),
    "connect-mirror-maker": KafkaTool(
        main_class="org.apache.kafka.connect.mirror.MirrorMaker",
        summary="Run Java's MirrorMaker 2 with a properties file.",
        needs_cluster=False,
        prints_log=True,
    ),
    "console-consumer": _make_kafka_tool(
        "consumer.ConsoleConsumer", "Print the records of a topic."
    ),
    "console-producer": _make_kafka_tool("ConsoleProducer", "Send the lines of stdin as records."),
    "console-share-consumer": _make_kafka_tool(
        "consumer.ConsoleShareConsumer", "Print records as a member of a share group."
    ),
    "consumer-groups": _make_kafka_tool(
        "consumer.group.ConsumerGroupCommand", "List, describe, reset and delete consumer groups."
    ),
    "consumer-perf-test": _make_kafka_tool(
        "ConsumerPerformance", "Measure the throughput of consuming a topic."
    ),
    "delegation-tokens": _make_kafka_tool("DelegationTokenCommand", "Manage delegation tokens."),
    "delete-records": _make_kafka_tool(
        "DeleteRecordsCommand", "Delete the records before an offset."
    ),
    "dump-log": KafkaTool(
        main_class=_TOOLS_PACKAGE + "DumpLogSegments",
        summary="Print the batches and records of log segment files.",
        needs_cluster=False,
    ),
    "e2e-latency": _make_kafka_tool(
        "EndToEndLatency", "Measure latency from producer to consumer."
    ),
    "features": _make_kafka_tool("FeatureCommand", "Show and change feature levels."),
    "get-offsets": _make_kafka_tool("GetOffsetShell", "Show the offsets of partitions."),
    "groups": _make_kafka_tool("GroupsCommand", "List groups of every type."),
    "leader-election": _make_kafka_tool(
        "LeaderElectionCommand", "Elect preferred or unclean leaders."
    ),
    "log-dirs": _make_kafka_tool("LogDirsCommand", "Show the size of partitions on disk."),
    "metadata-quorum": _make_kafka_tool("MetadataQuorumCommand", "Describe the KRaft quorum."),
    "producer-perf-test": _make_kafka_tool(
        "ProducerPerformance", "Measure the throughput of producing to a topic."
    ),
    "reassign-partitions": _make_kafka_tool(
        "reassign.ReassignPartitionsCommand", "Move partitions between brokers."
    ),
    "share-consumer-perf-test": _make_kafka_tool(
        "ShareConsumerPerformance", "Measure the throughput of a share group."
    ),
    "share-groups": _make_kafka_tool(
        "consumer.group.ShareGroupCommand", "List, describe, reset and delete share groups."
    ),
    "streams-application-reset": _make_kafka_tool(
        "StreamsResetter", "Reset a Kafka Streams application."
    ),
    "streams-groups": _make_kafka_tool(
        "streams.StreamsGroupCommand", "List, describe, reset and delete streams groups."
    ),
    "topics": _make_kafka_tool("TopicCommand", "List, describe, create, alter and delete topics."),
    "transactions": _make_kafka_tool(
        "TransactionsCommand", "List, describe and abort transactions."
    ),
    "verifiable-consumer": _make_kafka_tool(
        "VerifiableConsumer", ("Consume records; print each event as JSON.")
    ),
    "verifiable-producer": _make_kafka_tool(
        "VerifiableProducer", "Produce numbers; print each ack as JSON."
    ),
    "verifiable-share-consumer": _make_kafka_tool(
        "VerifiableShareConsumer", "Consume in a share group; print each event as JSON."
    ),
}
"""Kafka's command-line tools by name, in alphabetical order."""


def find_tool(name: str) -> str:
    """Return the key in `TOOLS` for `topics`, `kafka-topics` or `kafka-topics.sh`.

    If the tool is unknown, raises `SandboxError`, which suggests the tool with the most similar
    name.
    """
    short = name.removesuffix(".sh").removeprefix("kafka-")
    if short in TOOLS:
        return short
    near = difflib.get_close_matches(short, TOOLS, n=1)
    hint = f"did you mean '{near[0]}'?" if near else "run mm2 sandbox kafka --help for a list"
    raise SandboxError(f"'{name}' is not one of Kafka's tools; {hint}")


def needs_cluster_options(name: str, arguments: Sequence[str]) -> bool:
    """Return True if the cluster's connection options must be added to the tool's arguments.

    Returns False for tools without such options, for `--help`, and if the arguments already contain
    broker addresses.
    """
    named = any(each.startswith(("--bootstrap-", "--broker-list")) for each in arguments)
    return TOOLS[name].needs_cluster and not named and _HELP_OPTIONS.isdisjoint(arguments)


def make_tool_command(
    name: str, arguments: Sequence[str], *, target: ToolConnectionConfig | None, jars: Path
) -> list[str]:
    """Return the command line of a tool, including the cluster's address and client properties."""
    tool = TOOLS[name]
    given = list(arguments)
    if target is not None:
        at = 1 if tool.subcommand_first else 0
        config = (
            []
            if target.config is None or _CONFIG_OPTION in given
            else [_CONFIG_OPTION, str(target.config)]
        )
        given[at:at] = [_BOOTSTRAP_OPTION, target.bootstrap, *config]
    flags = (
        java_server_process.TEST_JVM_FLAGS
        if tool.prints_log
        else (*java_server_process.TEST_JVM_FLAGS, _QUIET_FLAG)
    )
    return java_server_process.make_java_command(tool.main_class, *given, jars=jars, flags=flags)
