"""Builds the commands (`mm2` and Kafka's tools) that messages recommend to operators.

No other module builds such commands. Kafka's tools are the scripts of its distribution
(`bin/kafka-*.sh`), used with options that every release since 2.8 accepts; `kafka-transactions.sh`
needs 3.0. A message with a recommended command ends with `Remedy: ` and the command.
"""

from __future__ import annotations

import json
import shlex
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.base import terminal_escape

REMEDY_PREFIX = f"{terminal_escape.REMEDY_LABEL} "
"""Prefix of the remedy at the end of a message. The remedy is a command."""
ADMIN_PROPERTIES_PLACEHOLDER = "ADMIN.properties"
"""Placeholder for an administrator's client properties file for a secured cluster."""
DEFAULT_CONFIG_FILE = "clusters.yaml"

WORKER_URL_PLACEHOLDER = "http://WORKER:8083"
"""Placeholder for the REST address of a Connect worker, used if the address is unknown."""
_POSITION_DESCRIPTIONS = {"earliest": "everything the source holds", "latest": "only new records"}


def format_remedy(*lines: str) -> str:
    """Format the end of a message: `Remedy: ` and the commands, joined with `&&`."""
    return REMEDY_PREFIX + " && ".join(lines)


def extract_remedy_from_message(message: str) -> str:
    """Return the remedy of a message: the command at the end of the message. Return "" if the
    message has no remedy."""
    return split_remedy_from_message(message)[1]


def split_remedy_from_message(message: str) -> tuple[str, str]:
    """Split a message into (text before the remedy, remedy command). The command is "" if the
    message has no remedy."""
    text, mark, line = message.rpartition(REMEDY_PREFIX)
    return (text.rstrip(), line) if mark else (message, "")


def insert_sentence_before_remedy(message: str, note: str) -> str:
    """Insert a sentence before the remedy of a message, so that the remedy remains at the end."""
    text, mark, line = message.rpartition(REMEDY_PREFIX)
    return f"{text}{note} {mark}{line}" if mark else f"{message.removesuffix('.')}. {note}"


def build_failover_command(
    verb: str, origin: str, destination: str, *extra_arguments: str, file: str = DEFAULT_CONFIG_FILE
) -> str:
    """Return the command `mm2 failover` or `mm2 failback`, selected by `verb`, with
    `extra_arguments` appended."""
    words = [
        "mm2",
        verb,
        "--from",
        origin,
        "--to",
        destination,
        *build_config_option(file),
        *extra_arguments,
    ]
    return shlex.join(words)


def build_translate_command(group: str, flow: str, *, file: str = DEFAULT_CONFIG_FILE) -> str:
    """Return the command `mm2 offsets translate --csv`. Kafka's tools can read its output."""
    words = ["mm2", "offsets", "translate", "--group", group, "--flow", flow, "--csv"]
    return shlex.join([*words, *build_config_option(file)])


def build_config_option(file: str) -> list[str]:
    """Return the arguments `--config FILE`; empty for the default file."""
    return [] if file == DEFAULT_CONFIG_FILE else ["--config", file]


def build_dns_lookup_command(address: str) -> str:
    """Return the command that resolves the host of "host:port" on this machine."""
    host, _ = _split_address(address)
    return shlex.join(["getent", "ahosts", host])


def build_port_test_command(address: str) -> str:
    """Return the command that tests whether "host:port" accepts TCP connections."""
    return shlex.join(["nc", "-vz", *_split_address(address)])


def build_certificate_check_command(address: str) -> str:
    """Return the command that shows whether "host:port" uses TLS, and its certificate."""
    host, port = _split_address(address)
    words = ["openssl", "s_client", "-connect", f"{host}:{port}", "-servername", host]
    return f"{shlex.join(words)} </dev/null"


def _split_address(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), port


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCommands:
    """Builds the commands that run Kafka's tools on one cluster."""

    bootstrap: str = "HOST:PORT"
    """Value of `--bootstrap-server`."""
    principal: str = "User:NAME"
    """Principal that mm2 is authenticated as on this cluster, such as "User:mm2"."""
    secured: bool = False
    """True if the cluster is secured, so that the tools need an administrator's client properties.
    The commands then contain a placeholder for the properties file."""

    # Topics

    def build_set_topic_configs_command(self, topic: str, settings: Mapping[str, str]) -> str:
        """Return the command that sets topic configs. A value that contains commas is enclosed in
        brackets, as `kafka-configs.sh` requires."""
        words = [
            f"{name}=[{value}]" if "," in value else f"{name}={value}"
            for name, value in settings.items()
        ]
        entity = ("--entity-type", "topics", "--entity-name", topic)
        return self._build_tool_command(
            "configs", "--alter", *entity, "--add-config", ",".join(words)
        )

    def build_create_topic_command(
        self,
        topic: str,
        *,
        partitions: int,
        replication_factor: int | None,
        settings: Mapping[str, str],
    ) -> str:
        """Return the command that creates a topic. If `replication_factor` is None, the default
        replication factor of the brokers is used."""
        words = ["--create", "--topic", topic, "--partitions", str(partitions)]
        if replication_factor is not None:
            words += ["--replication-factor", str(replication_factor)]
        for name, value in settings.items():
            words += ["--config", f"{name}={value}"]
        return self._build_tool_command("topics", *words)

    def build_show_topic_configs_command(self, topic: str) -> str:
        """Return the command that shows all configs of a topic, including defaults."""
        return self._build_tool_command(
            "configs", "--describe", "--all", "--entity-type", "topics", "--entity-name", topic
        )

    def build_show_topic_command(self, topic: str) -> str:
        """Return the command that shows the replicas and in-sync replicas of a topic."""
        return self._build_tool_command("topics", "--describe", "--topic", topic)

    def build_delete_topic_command(self, topic: str) -> str:
        return self._build_tool_command("topics", "--delete", "--topic", topic)

    def build_show_versions_command(self) -> str:
        """Return the command that shows the protocol versions that the brokers support."""
        return self._build_tool_command("broker-api-versions")

    # ACLs

    def build_allow_topic_command(self, topic: str, *operations: str) -> str:
        """Return the command that grants the principal operations on a topic. Operations have their
        `kafka-acls.sh` names: Read, DescribeConfigs, …"""
        return self._build_acl_command(operations, "--topic", topic)

    def build_allow_topics_command(self, topics: Sequence[str], *operations: str) -> str:
        """Return the command that grants the principal the same operations on several topics."""
        return self._build_acl_command(
            operations, *(word for each in topics for word in ("--topic", each))
        )

    def build_allow_transactional_ids_command(self, prefix: str) -> str:
        """Return the command that grants the principal the operations for fencing and transactions
        on all transactional ids with this prefix."""
        return self._build_acl_command(
            ("Write", "Describe"),
            *("--transactional-id", prefix, "--resource-pattern-type", "prefixed"),
        )

    def build_allow_groups_command(self, groups: Sequence[str], *operations: str) -> str:
        """Return the command that grants the principal the same operations on several consumer
        groups."""
        return self._build_acl_command(
            operations, *(word for each in groups for word in ("--group", each))
        )

    def build_allow_cluster_command(self, *operations: str) -> str:
        """Return the command that grants the principal operations on the cluster."""
        return self._build_acl_command(operations, "--cluster")

    def _build_acl_command(self, operations: tuple[str, ...], *resource: str) -> str:
        names = [word for each in operations for word in ("--operation", each)]
        return self._build_tool_command(
            "acls", "--add", "--allow-principal", self.principal, *names, *resource
        )

    def build_show_user_command(self, name: str) -> str:
        """Return the command that shows the SCRAM mechanisms for which the cluster stores
        credentials of a user."""
        return self._build_tool_command(
            "configs", "--describe", "--entity-type", "users", "--entity-name", name
        )

    # Producers

    def build_abort_transaction_command(self, topic: str, *, partition: int, start: int) -> str:
        """Return the command that aborts the transaction whose first record is at offset
        `start`."""
        place = ("--topic", topic, "--partition", str(partition), "--start-offset", str(start))
        return self._build_tool_command("transactions", "abort", *place)

    def build_show_producers_command(self, topic: str, *, partition: int) -> str:
        """Return the command that shows the active producers of a partition."""
        place = ("--topic", topic, "--partition", str(partition))
        return self._build_tool_command("transactions", "describe-producers", *place)

    # Groups that mm2 does not move

    def build_reset_share_group_command(self, group: str, topics: Sequence[str]) -> str:
        """Return the command that resets a share group to the time TIME, a placeholder that the
        operator replaces. `kafka-share-groups.sh` does not accept offsets."""
        words = ["--group", group, *(word for each in topics for word in ("--topic", each))]
        words += ["--reset-offsets", "--to-datetime", "TIME", "--execute"]
        return self._build_tool_command("share-groups", *words)

    def build_reset_streams_group_command(self, group: str, file: str) -> str:
        """Return the command that resets a streams group to the offsets in a file written by `mm2
        offsets translate --csv`."""
        words = ("--group", group, "--reset-offsets", "--from-file", file, "--execute")
        return self._build_tool_command("streams-groups", *words)

    def _build_tool_command(self, name: str, *words: str) -> str:
        head = [f"kafka-{name}.sh", "--bootstrap-server", self.bootstrap]
        if self.secured:
            head += ["--command-config", ADMIN_PROPERTIES_PLACEHOLDER]
        return shlex.join([*head, *words])


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCommands:
    """Builds the commands with which an operator controls a flow.

    If the flow runs under `mm2 run`, the commands are `mm2` commands. A plain Connect worker has no
    configuration file, so the commands are then requests to Connect's REST API.
    """

    file: str = DEFAULT_CONFIG_FILE
    source: ClusterCommands = ClusterCommands()
    target: ClusterCommands = ClusterCommands()
    connector: str = ""
    """Name of the flow's connector on a plain Connect worker; "" under `mm2 run`."""

    def build_mm2_run_command(self) -> str:
        """Return the command that starts `mm2 run` with the configuration file."""
        return shlex.join(["mm2", "run", "--config", self.file])

    def build_restart_command(self, flow: str, topic: str | None = None) -> str:
        """Return the command that restarts the tasks of a running flow. If `topic` is given, only
        the tasks that replicate this topic are restarted."""
        if self.connector:
            return self._build_rest_command("POST", "restart?includeTasks=true")
        words = ["mm2", "restart", flow, *([] if topic is None else ["--topic", topic])]
        return shlex.join([*words, "--config", self.file])

    def build_reload_command(self) -> str:
        """Return the command that applies a changed configuration."""
        if self.connector:
            return self._build_rest_command("PUT", "config", "@CONFIG.json")
        return shlex.join(["mm2", "reload", "--config", self.file])

    def build_reset_topic_command(
        self, flow: str, topic: str, *, position: str, partition: int | None = None
    ) -> str:
        """Return the command that restarts the replication of a topic, or of one partition, at
        `position` (the value of `mm2 topic reset --from`).

        On a plain Connect worker, the commands stop the connector, change its offsets and resume
        it.
        """
        if self.connector:
            body = _build_offsets_patch(
                flow.partition("->")[0], topic, position=position, partition=partition
            )
            steps = (("PUT", "stop"), ("PATCH", "offsets", body), ("PUT", "resume"))
            return " && ".join(self._build_rest_command(*step) for step in steps)
        words = ["mm2", "topic", "reset", flow, topic]
        if partition is not None:
            words += ["--partition", str(partition)]
        return shlex.join([*words, "--from", position, "--config", self.file])

    def build_rebuild_offset_map_command(self, flow: str, topic: str) -> str:
        """Return the command that rebuilds the offset map from the source and target logs; "" on a
        plain Connect worker."""
        if self.connector:
            return ""
        words = ["mm2", "offsets", "rebuild", "--flow", flow, "--topic", topic]
        return shlex.join([*words, "--config", self.file])

    def build_skip_map_record_command(
        self, flow: str, offset: int, *, position: str | None = None
    ) -> str:
        """Return the command that skips an unreadable record of the flow's offset map.

        If the record describes an era (generation of the mirror), replication restarts at
        `position`. The command is an `mm2` command even if the flow runs on a plain Connect worker.
        The command's configuration file must define both clusters and the flow.
        """
        words = ["mm2", "offsets", "skip", flow, "--offset", str(offset)]
        if position is not None:
            words += ["--from", position]
        return shlex.join([*words, "--config", self.file])

    def build_resume_command(self, flow: str, topic: str | None) -> str:
        """Return the command that resumes a paused flow. If `topic` is given, the command resumes
        only this topic."""
        words = ["mm2", "resume", flow, *([] if topic is None else ["--topic", topic])]
        return shlex.join([*words, "--config", self.file])

    def describe_other_reset_positions(self, position: str) -> str:
        """Return a sentence that explains which other positions the operator can choose for a topic
        reset. `position` is the position in the command that `build_reset_topic_command` built."""
        if self.connector:
            return "Replication resumes with the record after the offset in the PATCH request."
        others = [
            f"{each} ({what})" for each, what in _POSITION_DESCRIPTIONS.items() if each != position
        ]
        return f"Other values for --from: {', '.join(others)}, or a time."

    def _build_rest_command(self, method: str, path: str, body: str = "") -> str:
        connector = urllib.parse.quote(self.connector, safe="")
        url = f"{WORKER_URL_PLACEHOLDER}/connectors/{connector}/{path}"
        words = ["curl", "-f", "-X", method]
        if body:
            words += ["-H", "Content-Type: application/json", "-d", body]
        return shlex.join([*words, url])


def _build_offsets_patch(source: str, topic: str, *, position: str, partition: int | None) -> str:
    """Build the body of a request that alters a connector's offsets (`PATCH
    /connectors/{connector}/offsets`, KIP-875). Words in capitals are placeholders."""
    known = position.removeprefix("offset:")
    last = str(int(known) - 1) if known.isdecimal() and known != "0" else "OFFSET"
    number = "PARTITION" if partition is None else str(partition)
    offset = "null" if position in ("earliest", "offset:0") else f'{{"offset": {last}}}'
    where = f'{{"cluster": {json.dumps(source)}, "topic": {json.dumps(topic)}, '
    return f'{{"offsets": [{{"partition": {where}"partition": {number}}}, "offset": {offset}}}]}}'


GENERIC_COMMANDS = OperatorCommands()
"""Commands for messages that refer to no particular flow. Placeholders in capitals stand for the
missing names."""
