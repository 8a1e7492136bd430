"""Kafka's own command-line tools, run from the sandbox's jars against one of its clusters.

Names are those of the scripts in Kafka's `bin` without `kafka-` and `.sh`. The newest release's
tools serve all brokers that a sandbox can run.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mm2.sandbox import failures, jvm

_TOOLS = "org.apache.kafka.tools."
_SERVERS = "--bootstrap-server"
_CONFIG = "--command-config"
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
_HELP = frozenset({"--help", "-h", "--version"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """`needs_cluster`: it takes `--bootstrap-server`. With `subcommand_first` that option belongs
    behind the tool's first argument. `logs`: its log is part of what it prints."""

    main_class: str
    summary: str
    needs_cluster: bool = True
    subcommand_first: bool = False
    logs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The cluster that a tool is to use. `config` is its client properties file, None where
    `bootstrap` is enough."""

    bootstrap: str
    config: Path | None


def _tool(class_name: str, summary: str) -> Tool:
    return Tool(main_class=_TOOLS + class_name, summary=summary)


TOOLS: Mapping[str, Tool] = {
    "acls": _tool("AclCommand", "List, add and remove ACLs."),
    "broker-api-versions": _tool("BrokerApiVersionsCommand", "Show the APIs that brokers support."),
    "client-metrics": _tool("ClientMetricsCommand", "Manage subscriptions to client metrics."),
    "cluster": Tool(
        main_class=_TOOLS + "ClusterTool",
        summary="Show the cluster id; list and unregister brokers.",
        subcommand_first=True,
    ),
    "configs": Tool(
        main_class="kafka.admin.ConfigCommand",
        summary="Show and change configs of topics, brokers, users and clients.",
    ),
    "connect-mirror-maker": Tool(
        main_class="org.apache.kafka.connect.mirror.MirrorMaker",
        summary="Run Java's MirrorMaker 2 with a properties file.",
        needs_cluster=False,
        logs=True,
    ),
    "console-consumer": _tool("consumer.ConsoleConsumer", "Print the records of a topic."),
    "console-producer": _tool("ConsoleProducer", "Send the lines of stdin as records."),
    "console-share-consumer": _tool(
        "consumer.ConsoleShareConsumer", "Print records as a member of a share group."
    ),
    "consumer-groups": _tool(
        "consumer.group.ConsumerGroupCommand", "List, describe, reset and delete consumer groups."
    ),
    "consumer-perf-test": _tool("ConsumerPerformance", "Measure how fast a topic is consumed."),
    "delegation-tokens": _tool("DelegationTokenCommand", "Manage delegation tokens."),
    "delete-records": _tool("DeleteRecordsCommand", "Delete the records before an offset."),
    "dump-log": Tool(
        main_class=_TOOLS + "DumpLogSegments",
        summary="Print the batches and records of log segment files.",
        needs_cluster=False,
    ),
    "e2e-latency": _tool("EndToEndLatency", "Measure latency from producer to consumer."),
    "features": _tool("FeatureCommand", "Show and change feature levels."),
    "get-offsets": _tool("GetOffsetShell", "Show the offsets of partitions."),
    "groups": _tool("GroupsCommand", "List groups of every type."),
    "leader-election": _tool("LeaderElectionCommand", "Elect preferred or unclean leaders."),
    "log-dirs": _tool("LogDirsCommand", "Show the size of partitions on disk."),
    "metadata-quorum": _tool("MetadataQuorumCommand", "Describe the KRaft quorum."),
    "producer-perf-test": _tool("ProducerPerformance", "Measure how fast a topic is produced to."),
    "reassign-partitions": _tool(
        "reassign.ReassignPartitionsCommand", "Move partitions between brokers."
    ),
    "share-consumer-perf-test": _tool(
        "ShareConsumerPerformance", "Measure how fast a share group consumes."
    ),
    "share-groups": _tool(
        "consumer.group.ShareGroupCommand", "List, describe, reset and delete share groups."
    ),
    "streams-application-reset": _tool("StreamsResetter", "Reset a Kafka Streams application."),
    "streams-groups": _tool(
        "streams.StreamsGroupCommand", "List, describe, reset and delete streams groups."
    ),
    "topics": _tool("TopicCommand", "List, describe, create, alter and delete topics."),
    "transactions": _tool("TransactionsCommand", "List, describe and abort transactions."),
    "verifiable-consumer": _tool("VerifiableConsumer", "Consume; print each event as JSON."),
    "verifiable-producer": _tool("VerifiableProducer", "Produce numbers; print each ack as JSON."),
    "verifiable-share-consumer": _tool(
        "VerifiableShareConsumer", "Consume in a share group; print each event as JSON."
    ),
}
"""By name, in alphabetical order."""


def find(name: str) -> str:
    """The name in `TOOLS` of `topics`, `kafka-topics` or `kafka-topics.sh`.

    Raises `SandboxError` with the nearest name for any other.
    """
    short = name.removesuffix(".sh").removeprefix("kafka-")
    if short in TOOLS:
        return short
    near = difflib.get_close_matches(short, TOOLS, n=1)
    hint = f"did you mean '{near[0]}'?" if near else "mm2 sandbox kafka --help lists them"
    raise failures.SandboxError(f"'{name}' is not one of Kafka's tools; {hint}")


def needs_target(name: str, arguments: Sequence[str]) -> bool:
    """Whether the cluster must be filled in: not where the tool uses none, help is asked for, or
    the arguments name brokers themselves."""
    named = any(each.startswith(("--bootstrap-", "--broker-list")) for each in arguments)
    return TOOLS[name].needs_cluster and not named and _HELP.isdisjoint(arguments)


def command(name: str, arguments: Sequence[str], *, target: Target | None, jars: Path) -> list[str]:
    """The command line of a tool, with the cluster's address and client properties filled in."""
    tool = TOOLS[name]
    given = list(arguments)
    if target is not None:
        at = 1 if tool.subcommand_first else 0
        config = [] if target.config is None or _CONFIG in given else [_CONFIG, str(target.config)]
        given[at:at] = [_SERVERS, target.bootstrap, *config]
    flags = jvm.TEST_FLAGS if tool.logs else (*jvm.TEST_FLAGS, _QUIET)
    return jvm.command(tool.main_class, *given, jars=jars, flags=flags)
