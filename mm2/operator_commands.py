"""Builds the `mm2` and Kafka tool commands that messages suggest to operators.

All suggested commands are built here. Kafka's tools are those of its distribution
(`bin/kafka-*.sh`) with options that every release since 2.8 accepts; `kafka-transactions.sh` needs
3.0. A message ends with `Remedy: ` and the command.
"""

from __future__ import annotations

import json
import shlex
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

REMEDY_PREFIX = "Remedy: "
"""Precedes the command at the end of a message."""
ADMIN_PROPERTIES_PLACEHOLDER = "ADMIN.properties"
"""Placeholder for an administrator's client properties file for a secured cluster."""
DEFAULT_CONFIG_FILE = "clusters.yaml"

WORKER_URL_PLACEHOLDER = "http://WORKER:8083"
"""Placeholder for the REST address of a Connect worker, which is not known here."""
_POSITION_DESCRIPTIONS = {"earliest": "everything the source holds", "latest": "only new records"}


def format_remedy(*lines: str) -> str:
    """The end of a message: `Remedy: ` and the commands, joined with `&&`."""
    return REMEDY_PREFIX + " && ".join(lines)


def extract_remedy(message: str) -> str:
    """The command at the end of a message; "" if it has none."""
    return split_remedy(message)[1]


def split_remedy(message: str) -> tuple[str, str]:
    """Split a message into its text and the command of its remedy; "" if it has none."""
    text, mark, line = message.rpartition(REMEDY_PREFIX)
    return (text.rstrip(), line) if mark else (message, "")


def insert_note(message: str, note: str) -> str:
    """Insert a sentence before the remedy of a message; the remedy stays at the end."""
    text, mark, line = message.rpartition(REMEDY_PREFIX)
    return f"{text}{note} {mark}{line}" if mark else f"{message.removesuffix('.')}. {note}"


def build_move_command(
    verb: str, origin: str, destination: str, *extra_arguments: str, file: str = DEFAULT_CONFIG_FILE
) -> str:
    """The command `mm2 failover` or `mm2 failback` (`verb`); `extra_arguments` are further
    arguments."""
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
    """The command `mm2 offsets translate --csv`, whose output Kafka's tools read."""
    words = ["mm2", "offsets", "translate", "--group", group, "--flow", flow, "--csv"]
    return shlex.join([*words, *build_config_option(file)])


def build_config_option(file: str) -> list[str]:
    """The arguments `--config FILE`; empty for the default file."""
    return [] if file == DEFAULT_CONFIG_FILE else ["--config", file]


def build_dns_lookup(address: str) -> str:
    """The command that resolves the host of "host:port" on this machine."""
    host, _ = _split_address(address)
    return shlex.join(["getent", "ahosts", host])


def build_port_test(address: str) -> str:
    """The command that tests whether "host:port" accepts TCP connections."""
    return shlex.join(["nc", "-vz", *_split_address(address)])


def build_certificate_check(address: str) -> str:
    """The command that shows whether "host:port" uses TLS, and its certificate."""
    host, port = _split_address(address)
    words = ["openssl", "s_client", "-connect", f"{host}:{port}", "-servername", host]
    return f"{shlex.join(words)} </dev/null"


def _split_address(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), port


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCommands:
    """Builds commands of Kafka's tools for one cluster."""

    bootstrap: str = "HOST:PORT"
    """Value of `--bootstrap-server`."""
    principal: str = "User:NAME"
    """The principal as which mm2 is authenticated on this cluster, such as "User:mm2"."""
    secured: bool = False
    """The tools need an administrator's client properties, as a placeholder file."""

    # Topics

    def set_topic_configs(self, topic: str, settings: Mapping[str, str]) -> str:
        """Set topic configs. A value with commas is put in brackets, as the tool requires."""
        words = [
            f"{name}=[{value}]" if "," in value else f"{name}={value}"
            for name, value in settings.items()
        ]
        entity = ("--entity-type", "topics", "--entity-name", topic)
        return self._tool("configs", "--alter", *entity, "--add-config", ",".join(words))

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int,
        replication_factor: int | None,
        settings: Mapping[str, str],
    ) -> str:
        """Create a topic; `replication_factor` None means the brokers' default."""
        words = ["--create", "--topic", topic, "--partitions", str(partitions)]
        if replication_factor is not None:
            words += ["--replication-factor", str(replication_factor)]
        for name, value in settings.items():
            words += ["--config", f"{name}={value}"]
        return self._tool("topics", *words)

    def show_topic_configs(self, topic: str) -> str:
        """Show all configs of a topic, including defaults."""
        return self._tool(
            "configs", "--describe", "--all", "--entity-type", "topics", "--entity-name", topic
        )

    def show_topic(self, topic: str) -> str:
        """Show the replicas and in-sync replicas of a topic."""
        return self._tool("topics", "--describe", "--topic", topic)

    def delete_topic(self, topic: str) -> str:
        return self._tool("topics", "--delete", "--topic", topic)

    def show_versions(self) -> str:
        """Show the protocol versions that the brokers support."""
        return self._tool("broker-api-versions")

    # ACLs

    def allow_topic(self, topic: str, *operations: str) -> str:
        """Allow operations on a topic, as `kafka-acls.sh` names them: Read, DescribeConfigs, …"""
        return self._allow(operations, "--topic", topic)

    def allow_topics(self, topics: Sequence[str], *operations: str) -> str:
        """Allow the same operations on several topics."""
        return self._allow(operations, *(word for each in topics for word in ("--topic", each)))

    def allow_transactional_ids(self, prefix: str) -> str:
        """Allow fencing and transactions for all transactional ids with this prefix."""
        return self._allow(
            ("Write", "Describe"),
            *("--transactional-id", prefix, "--resource-pattern-type", "prefixed"),
        )

    def allow_named_groups(self, groups: Sequence[str], *operations: str) -> str:
        """Allow the same operations on several groups."""
        return self._allow(operations, *(word for each in groups for word in ("--group", each)))

    def allow_cluster(self, *operations: str) -> str:
        """Allow operations on the cluster."""
        return self._allow(operations, "--cluster")

    def _allow(self, operations: tuple[str, ...], *resource: str) -> str:
        names = [word for each in operations for word in ("--operation", each)]
        return self._tool("acls", "--add", "--allow-principal", self.principal, *names, *resource)

    def show_user(self, name: str) -> str:
        """Show for which SCRAM mechanisms the cluster has credentials of a user."""
        return self._tool("configs", "--describe", "--entity-type", "users", "--entity-name", name)

    # Producers

    def abort_transaction(self, topic: str, *, partition: int, start: int) -> str:
        """Abort the transaction whose first record is at offset `start`."""
        place = ("--topic", topic, "--partition", str(partition), "--start-offset", str(start))
        return self._tool("transactions", "abort", *place)

    def show_producers(self, topic: str, *, partition: int) -> str:
        """Show the active producers of a partition."""
        place = ("--topic", topic, "--partition", str(partition))
        return self._tool("transactions", "describe-producers", *place)

    # Groups that mm2 does not move

    def reset_share_group(self, group: str, topics: Sequence[str]) -> str:
        """Reset a share group to a time (placeholder TIME); the tool does not accept offsets."""
        words = ["--group", group, *(word for each in topics for word in ("--topic", each))]
        words += ["--reset-offsets", "--to-datetime", "TIME", "--execute"]
        return self._tool("share-groups", *words)

    def reset_streams_group(self, group: str, file: str) -> str:
        """Reset a streams group to the offsets in a file of `mm2 offsets translate --csv`."""
        words = ("--group", group, "--reset-offsets", "--from-file", file, "--execute")
        return self._tool("streams-groups", *words)

    def _tool(self, name: str, *words: str) -> str:
        head = [f"kafka-{name}.sh", "--bootstrap-server", self.bootstrap]
        if self.secured:
            head += ["--command-config", ADMIN_PROPERTIES_PLACEHOLDER]
        return shlex.join([*head, *words])


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCommands:
    """Builds the commands by which an operator controls one flow.

    They are `mm2` commands, or requests to Connect's REST API if the flow runs on a plain Connect
    worker, which has no configuration file.
    """

    file: str = DEFAULT_CONFIG_FILE
    source: ClusterCommands = ClusterCommands()
    target: ClusterCommands = ClusterCommands()
    connector: str = ""
    """Name of the flow's connector on a plain Connect worker; "" under `mm2 run`."""

    def run(self) -> str:
        """Start `mm2 run` with the configuration file."""
        return shlex.join(["mm2", "run", "--config", self.file])

    def restart(self, flow: str, topic: str | None = None) -> str:
        """Restart the tasks of a running flow, or only those that replicate `topic`."""
        if self.connector:
            return self._rest("POST", "restart?includeTasks=true")
        words = ["mm2", "restart", flow, *([] if topic is None else ["--topic", topic])]
        return shlex.join([*words, "--config", self.file])

    def reload(self) -> str:
        """Apply a changed configuration."""
        if self.connector:
            return self._rest("PUT", "config", "@CONFIG.json")
        return shlex.join(["mm2", "reload", "--config", self.file])

    def reset_topic(
        self, flow: str, topic: str, *, position: str, partition: int | None = None
    ) -> str:
        """Restart the replication of a topic, or of one partition, at `position` (the value of
        `mm2 topic reset --from`).

        On a plain Connect worker: stop the connector, change its offsets, resume it.
        """
        if self.connector:
            body = _build_offsets_patch(
                flow.partition("->")[0], topic, position=position, partition=partition
            )
            steps = (("PUT", "stop"), ("PATCH", "offsets", body), ("PUT", "resume"))
            return " && ".join(self._rest(*step) for step in steps)
        words = ["mm2", "topic", "reset", flow, topic]
        if partition is not None:
            words += ["--partition", str(partition)]
        return shlex.join([*words, "--from", position, "--config", self.file])

    def rebuild_offset_map(self, flow: str, topic: str) -> str:
        """Rebuild the offset map from both logs; "" on a plain Connect worker."""
        if self.connector:
            return ""
        words = ["mm2", "offsets", "rebuild", "--flow", flow, "--topic", topic]
        return shlex.join([*words, "--config", self.file])

    def skip_map_record(self, flow: str, offset: int, *, position: str | None = None) -> str:
        """Skip an unreadable record of the flow's offset map. For the record of an era, restart at
        `position`.

        Also on a plain Connect worker this is an `mm2` command: its file must define both clusters
        and the flow.
        """
        words = ["mm2", "offsets", "skip", flow, "--offset", str(offset)]
        if position is not None:
            words += ["--from", position]
        return shlex.join([*words, "--config", self.file])

    def resume(self, flow: str, topic: str | None) -> str:
        """Resume a paused flow, or only `topic`."""
        words = ["mm2", "resume", flow, *([] if topic is None else ["--topic", topic])]
        return shlex.join([*words, "--config", self.file])

    def describe_other_positions(self, position: str) -> str:
        """A sentence that lists the alternatives to `position` in the `reset_topic` command."""
        if self.connector:
            return "Replication resumes at the record after the offset in the PATCH request."
        others = [
            f"{each} ({what})" for each, what in _POSITION_DESCRIPTIONS.items() if each != position
        ]
        return f"Other values for --from: {', '.join(others)}, or a time."

    def _rest(self, method: str, path: str, body: str = "") -> str:
        connector = urllib.parse.quote(self.connector, safe="")
        url = f"{WORKER_URL_PLACEHOLDER}/connectors/{connector}/{path}"
        words = ["curl", "-f", "-X", method]
        if body:
            words += ["-H", "Content-Type: application/json", "-d", body]
        return shlex.join([*words, url])


def _build_offsets_patch(source: str, topic: str, *, position: str, partition: int | None) -> str:
    """The body of `PATCH /connectors/C/offsets` (KIP-875); words in capitals are placeholders."""
    known = position.removeprefix("offset:")
    last = str(int(known) - 1) if known.isdecimal() and known != "0" else "OFFSET"
    number = "PARTITION" if partition is None else str(partition)
    offset = "null" if position in ("earliest", "offset:0") else f'{{"offset": {last}}}'
    where = f'{{"cluster": {json.dumps(source)}, "topic": {json.dumps(topic)}, '
    return f'{{"offsets": [{{"partition": {where}"partition": {number}}}, "offset": {offset}}}]}}'


GENERIC_COMMANDS = OperatorCommands()
"""For messages without a known flow: the commands contain placeholders in capitals."""
