from __future__ import annotations

import json
import re
import shlex

import pytest

from connect_runtime.api.records import SourceOffset
from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands
from mm2.connectors import connect_offsets
from mm2.suggested_commands import ClusterCommands, OperatorCommands
from tests.support import printed

CLUSTER = ClusterCommands(bootstrap="b1:9092,b2:9092", principal="User:mm2")
OPERATOR = OperatorCommands(file="/etc/mm2/clusters.yaml", target=CLUSTER)
HEAD = "--bootstrap-server b1:9092,b2:9092"
ALLOW = f"kafka-acls.sh {HEAD} --add --allow-principal User:mm2"

# Each: what is built, and how it reads.
TABLE = [
    (
        CLUSTER.build_set_topic_configs_command("t", {"a.b": "1", "c": "d"}),
        f"kafka-configs.sh {HEAD} --alter --entity-type topics --entity-name t "
        "--add-config a.b=1,c=d",
    ),
    (
        CLUSTER.build_set_topic_configs_command("t", {"cleanup.policy": "compact,delete"}),
        f"kafka-configs.sh {HEAD} --alter --entity-type topics --entity-name t "
        "--add-config 'cleanup.policy=[compact,delete]'",
    ),
    (
        CLUSTER.build_create_topic_command(
            "t", partitions=2, replication_factor=3, settings={"a": "b,c"}
        ),
        f"kafka-topics.sh {HEAD} --create --topic t --partitions 2 --replication-factor 3 "
        "--config a=b,c",
    ),
    (
        CLUSTER.build_create_topic_command("t", partitions=2, replication_factor=None, settings={}),
        f"kafka-topics.sh {HEAD} --create --topic t --partitions 2",
    ),
    (
        CLUSTER.build_show_topic_configs_command("t"),
        f"kafka-configs.sh {HEAD} --describe --all --entity-type topics --entity-name t",
    ),
    (CLUSTER.build_show_topic_command("t"), f"kafka-topics.sh {HEAD} --describe --topic t"),
    (CLUSTER.build_delete_topic_command("t"), f"kafka-topics.sh {HEAD} --delete --topic t"),
    (
        CLUSTER.build_allow_topic_command("t", "Read", "Write"),
        f"{ALLOW} --operation Read --operation Write --topic t",
    ),
    (
        CLUSTER.build_allow_transactional_ids_command("mm2-a->b-"),
        f"{ALLOW} --operation Write --operation Describe --transactional-id 'mm2-a->b-' "
        "--resource-pattern-type prefixed",
    ),
    (
        CLUSTER.build_allow_topics_command(["t", "u"], "Read"),
        f"{ALLOW} --operation Read --topic t --topic u",
    ),
    (
        CLUSTER.build_allow_groups_command(["g", "h"], "Read"),
        f"{ALLOW} --operation Read --group g --group h",
    ),
    (
        CLUSTER.build_show_user_command("mirror"),
        f"kafka-configs.sh {HEAD} --describe --entity-type users --entity-name mirror",
    ),
    (CLUSTER.build_show_versions_command(), f"kafka-broker-api-versions.sh {HEAD}"),
    (
        suggested_commands.build_dns_lookup_command("kafka.example:9092"),
        "getent ahosts kafka.example",
    ),
    (suggested_commands.build_port_test_command("[::1]:9092"), "nc -vz ::1 9092"),
    (
        suggested_commands.build_certificate_check_command("k:9093"),
        "openssl s_client -connect k:9093 -servername k </dev/null",
    ),
    (
        CLUSTER.build_allow_cluster_command("IdempotentWrite"),
        f"{ALLOW} --operation IdempotentWrite --cluster",
    ),
    (
        CLUSTER.build_abort_transaction_command("t", partition=3, start=70),
        f"kafka-transactions.sh {HEAD} abort --topic t --partition 3 --start-offset 70",
    ),
    (
        CLUSTER.build_show_producers_command("t", partition=3),
        f"kafka-transactions.sh {HEAD} describe-producers --topic t --partition 3",
    ),
    (
        OPERATOR.build_rebuild_offset_map_command("a->b", "t"),
        "mm2 offsets rebuild --flow 'a->b' --topic t --config /etc/mm2/clusters.yaml",
    ),
    (OperatorCommands(connector="a").build_rebuild_offset_map_command("a->b", "t"), ""),
    (OPERATOR.build_mm2_run_command(), "mm2 run --config /etc/mm2/clusters.yaml"),
    (OPERATOR.build_reload_command(), "mm2 reload --config /etc/mm2/clusters.yaml"),
    (
        OPERATOR.build_reset_topic_command("a->b", "t", position="offset:9", partition=3),
        "mm2 topic reset 'a->b' t --partition 3 --from offset:9 --config /etc/mm2/clusters.yaml",
    ),
    (
        OPERATOR.build_reset_topic_command("a->b", "t", position="earliest"),
        "mm2 topic reset 'a->b' t --from earliest --config /etc/mm2/clusters.yaml",
    ),
    (OPERATOR.build_restart_command("a->b"), "mm2 restart 'a->b' --config /etc/mm2/clusters.yaml"),
    (
        OPERATOR.build_restart_command("a->b", "t"),
        "mm2 restart 'a->b' --topic t --config /etc/mm2/clusters.yaml",
    ),
    (
        OperatorCommands(connector="m").build_restart_command("a->b", "t"),
        "curl -f -X POST 'http://WORKER:8083/connectors/m/restart?includeTasks=true'",
    ),
]


@pytest.mark.parametrize(("built", "reads"), TABLE, ids=[reads[:30] for _, reads in TABLE])
def test_a_command_is_whole(built, reads):
    assert built == reads


def test_a_move_is_begun_between_two_clusters():
    line = suggested_commands.build_failover_command("failover", "a", "b", "--group", "my group")
    assert line == "mm2 failover --from a --to b --group 'my group'"


def test_the_shell_gets_every_word_as_it_was():
    line = OperatorCommands(file="my file.yaml").build_reset_topic_command(
        "a->b", "t", position="latest"
    )
    assert shlex.split(line)[3] == "a->b"
    assert shlex.split(line)[-1] == "my file.yaml"


def test_a_secured_cluster_is_reached_with_an_administrators_properties():
    secured = ClusterCommands(bootstrap="b:1", secured=True)
    assert secured.build_show_topic_command("t") == (
        "kafka-topics.sh --bootstrap-server b:1 --command-config ADMIN.properties "
        "--describe --topic t"
    )


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("All is well.", ""),
        (f"Bad. {suggested_commands.format_remedy('a b')}", "a b"),
        (f"Bad. {suggested_commands.format_remedy('a b', 'c d')}", "a b && c d"),
        (
            suggested_commands.insert_sentence_before_remedy(
                f"Bad. {suggested_commands.format_remedy('a b')}", "It is tried again."
            ),
            "a b",
        ),
        (
            f"{suggested_commands.format_remedy('not this')}. "
            f"{suggested_commands.format_remedy('a (b)')}",
            "a (b)",
        ),
    ],
)
def test_the_remedy_is_found_in_a_message(message, line):
    assert suggested_commands.extract_remedy_from_message(message) == line


PLAIN = OperatorCommands(file="", connector="mirror")
URL = "http://WORKER:8083/connectors/mirror"


@pytest.mark.parametrize(
    ("position", "partition", "body"),
    [
        ("offset:7", 3, {"partition": 3, "offset": {"offset": 6}}),
        ("offset:0", 3, {"partition": 3, "offset": None}),
        ("earliest", 0, {"partition": 0, "offset": None}),
    ],
)
def test_on_a_plain_worker_offsets_are_altered_over_rest(position, partition, body):
    line = PLAIN.build_reset_topic_command(
        "a->b", "my topic", position=position, partition=partition
    )
    stop, alter, go_on = (shlex.split(each) for each in line.split(" && "))
    assert stop[-3:] == ["-X", "PUT", f"{URL}/stop"]
    assert go_on[-1] == f"{URL}/resume"
    assert (alter[3], alter[-1]) == ("PATCH", f"{URL}/offsets")
    (altered,) = json.loads(alter[-2])["offsets"]
    where = {"cluster": "a", "topic": "my topic", "partition": body["partition"]}
    assert altered == {"partition": where, "offset": body["offset"]}
    (read,) = (SourceOffset(**altered),)
    connect_offsets.check_source_offsets([read])
    start = connect_offsets.find_start_positions([read], cluster="a", start="earliest")
    at = position if position == "offset:7" else "earliest"
    assert start == {TopicPartition("my topic", partition): at}


def test_on_a_plain_worker_what_is_not_known_is_a_word_to_be_replaced():
    line = PLAIN.build_reset_topic_command("a->b", "t", position="latest")
    assert '"partition": PARTITION}, "offset": {"offset": OFFSET}' in line


def test_on_a_plain_worker_no_command_of_mm2_is_told():
    for text in printed.messages(PLAIN):
        other = re.sub(r"mm2 offsets skip .*", "", text)  # which names a file of its own
        assert not re.search(r"mm2 (run|reload|resume|restart|topic)|--from", other), text
