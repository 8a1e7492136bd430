"""The command lines that messages tell an operator to type: Kafka's own tools and `mm2`.

The only place that spells them. Kafka's tools are those of its distribution
(`bin/kafka-*.sh`), with options that every release from 2.8 on understands;
`kafka-transactions.sh` needs 3.0. A message ends with `Remedy: ` and its command line.
"""

from __future__ import annotations

import json
import shlex
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

REMEDY_PREFIX = "Remedy: "
"""Precedes the command line that ends a message."""
ADMIN_PROPERTIES_PLACEHOLDER = "ADMIN.properties"
"""Stands for the client properties with which an administrator reaches a secured cluster."""
DEFAULT_CONFIG_FILE = "clusters.yaml"

WORKER_URL_PLACEHOLDER = "http://WORKER:8083"
"""Stands for the REST API of a Connect worker, which knows its address no better."""
_POSITION_DESCRIPTIONS = {"earliest": "everything the source holds", "latest": "only new records"}


def format_remedy(*lines: str) -> str:
    """The end of a message: these commands, one after the other, are the remedy."""
    return REMEDY_PREFIX + " && ".join(lines)


def extract_remedy(message: str) -> str:
    """The command line at the end of a message, "" for none."""
    return split_remedy(message)[1]


def split_remedy(message: str) -> tuple[str, str]:
    """A message without its remedy, and the remedy's command line, "" for none."""
    text, mark, line = message.rpartition(REMEDY_PREFIX)
    return (text.rstrip(), line) if mark else (message, "")


def insert_note(message: str, note: str) -> str:
    """The message with one sentence more, ahead of its remedy: that ends every message."""
    text, mark, line = message.rpartition(REMEDY_PREFIX)
    return f"{text}{note} {mark}{line}" if mark else f"{message.removesuffix('.')}. {note}"


def build_move_command(
    verb: str, origin: str, destination: str, *more: str, file: str = DEFAULT_CONFIG_FILE
) -> str:
    """`mm2 failover` or `mm2 failback`."""
    words = ["mm2", verb, "--from", origin, "--to", destination, *build_config_option(file), *more]
    return shlex.join(words)


def build_translate_command(group: str, flow: str, *, file: str = DEFAULT_CONFIG_FILE) -> str:
    """`mm2 offsets translate`, as a file for Kafka's tools."""
    words = ["mm2", "offsets", "translate", "--group", group, "--flow", flow, "--csv"]
    return shlex.join([*words, *build_config_option(file)])


def build_config_option(file: str) -> list[str]:
    """What names the file that configures it; the usual one needs no name."""
    return [] if file == DEFAULT_CONFIG_FILE else ["--config", file]


def build_dns_lookup(address: str) -> str:
    """What the host of "host:port" resolves to on this machine."""
    host, _ = _split_address(address)
    return shlex.join(["getent", "ahosts", host])


def build_port_test(address: str) -> str:
    """Whether anything takes connections at "host:port"."""
    return shlex.join(["nc", "-vz", *_split_address(address)])


def build_certificate_check(address: str) -> str:
    """Whether "host:port" speaks TLS, and who it says it is."""
    host, port = _split_address(address)
    words = ["openssl", "s_client", "-connect", f"{host}:{port}", "-servername", host]
    return f"{shlex.join(words)} </dev/null"


def _split_address(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), port


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCommands:
    """How Kafka's tools reach a cluster, and who we are there.

    `bootstrap` as in bootstrap.servers; `principal` as brokers name us: "User:mm2". To a `secured`
    one tools need an administrator's client properties, which are not ours to know.
    """

    bootstrap: str = "HOST:PORT"
    principal: str = "User:NAME"
    secured: bool = False

    # Topics

    def set_topic(self, topic: str, settings: Mapping[str, str]) -> str:
        """Overrides of a topic's settings; a value with commas is a list to the tool."""
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
        """`replication_factor` None leaves it to the brokers."""
        words = ["--create", "--topic", topic, "--partitions", str(partitions)]
        if replication_factor is not None:
            words += ["--replication-factor", str(replication_factor)]
        for name, value in settings.items():
            words += ["--config", f"{name}={value}"]
        return self._tool("topics", *words)

    def show_settings(self, topic: str) -> str:
        return self._tool(
            "configs", "--describe", "--all", "--entity-type", "topics", "--entity-name", topic
        )

    def show_topic(self, topic: str) -> str:
        """Which brokers hold it, and which of them are in sync."""
        return self._tool("topics", "--describe", "--topic", topic)

    def delete_topic(self, topic: str) -> str:
        return self._tool("topics", "--delete", "--topic", topic)

    def show_versions(self) -> str:
        """Which versions of the protocol its brokers speak."""
        return self._tool("broker-api-versions")

    # Rights

    def allow_topic(self, topic: str, *operations: str) -> str:
        """Operations as `kafka-acls.sh` spells them: Read, Write, DescribeConfigs, …"""
        return self._allow(operations, "--topic", topic)

    def allow_topics(self, topics: Sequence[str], *operations: str) -> str:
        """Of several topics alike."""
        return self._allow(operations, *(word for each in topics for word in ("--topic", each)))

    def allow_transactional_ids(self, prefix: str) -> str:
        """All that fencing and transactions need of ids that begin so."""
        return self._allow(
            ("Write", "Describe"),
            *("--transactional-id", prefix, "--resource-pattern-type", "prefixed"),
        )

    def allow_named_groups(self, groups: Sequence[str], *operations: str) -> str:
        """Of several groups alike."""
        return self._allow(operations, *(word for each in groups for word in ("--group", each)))

    def allow_cluster(self, *operations: str) -> str:
        return self._allow(operations, "--cluster")

    def _allow(self, operations: tuple[str, ...], *resource: str) -> str:
        what = [word for each in operations for word in ("--operation", each)]
        return self._tool("acls", "--add", "--allow-principal", self.principal, *what, *resource)

    def show_user(self, name: str) -> str:
        """Which passwords a cluster knows of a user (SCRAM)."""
        return self._tool("configs", "--describe", "--entity-type", "users", "--entity-name", name)

    # Producers

    def abort_transaction(self, topic: str, *, partition: int, start: int) -> str:
        """End the transaction that begins at this offset of the log."""
        place = ("--topic", topic, "--partition", str(partition), "--start-offset", str(start))
        return self._tool("transactions", "abort", *place)

    def show_producers(self, topic: str, *, partition: int) -> str:
        """Who wrote there last, by producer id."""
        place = ("--topic", topic, "--partition", str(partition))
        return self._tool("transactions", "describe-producers", *place)

    # Groups that mm2 does not move

    def reset_share_group(self, group: str, topics: Sequence[str]) -> str:
        """Let a share group begin at the records of a time; the tool knows no offsets."""
        words = ["--group", group, *(word for each in topics for word in ("--topic", each))]
        words += ["--reset-offsets", "--to-datetime", "TIME", "--execute"]
        return self._tool("share-groups", *words)

    def reset_streams_group(self, group: str, file: str) -> str:
        """Give a streams group the offsets of a file that `mm2 offsets translate --csv` wrote."""
        words = ("--group", group, "--reset-offsets", "--from-file", file, "--execute")
        return self._tool("streams-groups", *words)

    def _tool(self, name: str, *words: str) -> str:
        head = [f"kafka-{name}.sh", "--bootstrap-server", self.bootstrap]
        if self.secured:
            head += ["--command-config", ADMIN_PROPERTIES_PLACEHOLDER]
        return shlex.join([*head, *words])


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCommands:
    """What the person who runs flows has at hand: the `file` that says what they mirror, and the
    clusters of one flow. On a plain Connect worker there is no file: then `connector` is the name
    of the flow's connector there, and its REST API the way to it.
    """

    file: str = DEFAULT_CONFIG_FILE
    source: ClusterCommands = ClusterCommands()
    target: ClusterCommands = ClusterCommands()
    connector: str = ""

    def run(self) -> str:
        """Start the process that runs the file."""
        return shlex.join(["mm2", "run", "--config", self.file])

    def restart(self, flow: str, topic: str | None = None) -> str:
        """Restart a running flow's tasks, or those that have a topic."""
        if self.connector:
            return self._rest("POST", "restart?includeTasks=true")
        words = ["mm2", "restart", flow, *([] if topic is None else ["--topic", topic])]
        return shlex.join([*words, "--config", self.file])

    def reload(self) -> str:
        """Have what was changed in the configuration taken up."""
        if self.connector:
            return self._rest("PUT", "config", "@CONFIG.json")
        return shlex.join(["mm2", "reload", "--config", self.file])

    def reset_topic(
        self, flow: str, topic: str, *, position: str, partition: int | None = None
    ) -> str:
        """Begin again at `position` (`mm2 topic reset --from`); all partitions unless one is named.

        On a plain Connect worker the connector is stopped for it, and resumed.
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

    def rebuild(self, flow: str, topic: str) -> str:
        """Have the map of offsets made anew from both logs; "" where no file says what flows."""
        if self.connector:
            return ""
        words = ["mm2", "offsets", "rebuild", "--flow", flow, "--topic", topic]
        return shlex.join([*words, "--config", self.file])

    def skip_map_record(self, flow: str, offset: int, *, position: str | None = None) -> str:
        """Skip a record of the flow's offset map that cannot be read; of an era's record, begin
        again at `position`. On a plain Connect worker, the file is one that has both clusters and
        the flow."""
        words = ["mm2", "offsets", "skip", flow, "--offset", str(offset)]
        if position is not None:
            words += ["--from", position]
        return shlex.join([*words, "--config", self.file])

    def go_on(self, flow: str, topic: str | None) -> str:
        """Resume after `mm2 pause`, the whole flow or a topic."""
        words = ["mm2", "resume", flow, *([] if topic is None else ["--topic", topic])]
        return shlex.join([*words, "--config", self.file])

    def other_positions(self, position: str) -> str:
        """What may stand in `reset_topic` in the place of `position`; a sentence."""
        if self.connector:
            return "Replication resumes at the record after the offset in the PATCH request."
        others = [
            f"{each} ({what})" for each, what in _POSITION_DESCRIPTIONS.items() if each != position
        ]
        return f"Other values for --from: {', '.join(others)}, or a time."

    def _rest(self, method: str, path: str, body: str = "") -> str:
        url = f"{WORKER_URL_PLACEHOLDER}/connectors/{urllib.parse.quote(self.connector, safe='')}/{path}"
        words = ["curl", "-f", "-X", method]
        if body:
            words += ["-H", "Content-Type: application/json", "-d", body]
        return shlex.join([*words, url])


def _build_offsets_patch(source: str, topic: str, *, position: str, partition: int | None) -> str:
    """The body of `PATCH /connectors/C/offsets` (KIP-875); words in capitals are to be replaced."""
    known = position.removeprefix("offset:")
    last = str(int(known) - 1) if known.isdecimal() and known != "0" else "OFFSET"
    number = "PARTITION" if partition is None else str(partition)
    offset = "null" if position in ("earliest", "offset:0") else f'{{"offset": {last}}}'
    where = f'{{"cluster": {json.dumps(source)}, "topic": {json.dumps(topic)}, '
    return f'{{"offsets": [{{"partition": {where}"partition": {number}}}, "offset": {offset}}}]}}'


GENERIC_COMMANDS = OperatorCommands()
"""Where nothing is known but that there is somebody: commands then hold words to be replaced."""
