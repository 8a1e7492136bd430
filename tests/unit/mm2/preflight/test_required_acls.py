from __future__ import annotations

import dataclasses

import pytest

from mm2.kafka.kafka_client_interfaces import AuthorizedOperations
from mm2.preflight import required_acls
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity
from mm2.preflight.required_acls import (
    ClientResource,
    FlowClient,
    FlowResourceUsage,
    InternalTopicAcls,
    ResourceKind,
    TriedOperations,
)
from mm2.suggested_commands import ClusterCommands

Client, Kind, Weight = FlowClient, ResourceKind, CheckSeverity
OPERATORS = {
    client: ClusterCommands(
        bootstrap="s:1" if client.connects_to_source else "t:1",
        principal=f"User:{client.name.lower()}",
    )
    for client in Client
}
EVERYTHING = frozenset(
    {"READ", "WRITE", "CREATE", "DESCRIBE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"}
)
WANTED = FlowResourceUsage(
    topics=("orders", "users"),
    mirrors=("east.orders", "east.users"),
    internal_topics=(
        InternalTopicAcls(name="mm2-offset-map", creator=Client.TARGET_ADMIN, user=Client.PRODUCER),
        InternalTopicAcls(name="mm2-configs", creator=Client.WORKER, user=Client.WORKER),
        InternalTopicAcls(
            name="heartbeats",
            creator=Client.WORKER,
            user=Client.WORKER,
            checks_config=False,
            effect="no heartbeats",
            severity=Weight.WARNING,
        ),
    ),
    worker_group="east-mm2",
    has_visible_groups=False,
    synced_groups=("app",),
    sync_acls=True,
    reverse_flow_topics=(ClientResource(client=Client.CONSUMER, kind=Kind.TOPIC, name="back"),),
)


def told(
    held: dict[ClientResource, AuthorizedOperations],
    wanted: FlowResourceUsage = WANTED,
    tried: TriedOperations | None = None,
) -> list[CheckFinding]:
    return list(
        required_acls.find_missing_acls(
            "east->west",
            required_acls.list_required_acls(wanted),
            held,
            tried=tried or {},
            operators=OPERATORS,
        )
    )


def everything(
    operations: frozenset[str] | None = EVERYTHING, *, exists: bool = False
) -> dict[ClientResource, AuthorizedOperations]:
    held = AuthorizedOperations(operations=operations, exists=exists)
    return {need.resource: held for need in required_acls.list_required_acls(WANTED)}


def without(
    client: FlowClient, kind: ResourceKind, name: str, *operations: str
) -> list[CheckFinding]:
    resource = ClientResource(client=client, kind=kind, name=name)
    lacking = AuthorizedOperations(operations=EVERYTHING - set(operations), exists=False)
    return told({**everything(), resource: lacking})


def test_with_all_rights_there_is_nothing_to_tell():
    assert told(everything()) == []


def test_what_brokers_do_not_tell_is_not_missing():
    assert told(everything(None)) == []
    assert told({}) == []


@pytest.mark.parametrize(
    ("client", "kind", "name", "operation", "weight"),
    [
        (Client.CONSUMER, Kind.TOPIC, "orders", "READ", Weight.FAILED),
        (Client.SOURCE_ADMIN, Kind.TOPIC, "orders", "DESCRIBE_CONFIGS", Weight.WARNING),
        (Client.PRODUCER, Kind.TOPIC, "east.orders", "WRITE", Weight.FAILED),
        (Client.PRODUCER, Kind.TOPIC, "east.orders", "READ", Weight.FAILED),
        (Client.TARGET_ADMIN, Kind.TOPIC, "east.orders", "ALTER", Weight.WARNING),
        (Client.TARGET_ADMIN, Kind.TOPIC, "east.orders", "ALTER_CONFIGS", Weight.WARNING),
        (Client.PRODUCER, Kind.TOPIC, "mm2-offset-map", "WRITE", Weight.FAILED),
        (Client.WORKER, Kind.TOPIC, "mm2-configs", "READ", Weight.FAILED),
        (Client.WORKER, Kind.TOPIC, "mm2-configs", "DESCRIBE_CONFIGS", Weight.WARNING),
        (Client.WORKER, Kind.GROUP, "east-mm2", "READ", Weight.FAILED),
        (Client.TARGET_ADMIN, Kind.GROUP, "app", "READ", Weight.WARNING),
        (Client.SOURCE_ADMIN, Kind.GROUP, "*", "DESCRIBE", Weight.WARNING),
        (Client.TARGET_ADMIN, Kind.CLUSTER, "", "DESCRIBE_CONFIGS", Weight.WARNING),
        (Client.TARGET_ADMIN, Kind.CLUSTER, "", "ALTER", Weight.WARNING),
        (Client.SOURCE_ADMIN, Kind.CLUSTER, "", "DESCRIBE", Weight.WARNING),
        (Client.CONSUMER, Kind.TOPIC, "back", "READ", Weight.FAILED),
    ],
)
def test_one_right_that_is_missing_is_named_with_who_lacks_it(
    client, kind, name, operation, weight
):
    (found,) = without(client, kind, name, operation)
    assert (found.subject, found.area, found.severity) == (
        "east->west",
        CheckArea.RIGHTS,
        weight,
    )
    assert (
        f"User:{client.name.lower()} ({client.value}) is not authorized to {operation}"
        in found.text
    )
    assert found.text.endswith("on the source" if client.connects_to_source else "on the target")
    spelled = operation.title().replace("_", "")
    assert f"--allow-principal User:{client.name.lower()}" in found.command
    assert f"--operation {spelled}" in found.command
    assert name in found.text + found.command
    assert found.code == f"right-{kind.value}-{operation.lower().replace('_', '-')}"


MIRROR = ClientResource(client=Client.TARGET_ADMIN, kind=Kind.TOPIC, name="east.orders")


def test_to_create_needs_a_right_only_while_the_topic_is_missing():
    lacking = AuthorizedOperations(operations=EVERYTHING - {"CREATE"}, exists=False)
    (found,) = told({**everything(), MIRROR: lacking})
    assert found.code == "right-topic-create"
    assert told({**everything(), MIRROR: dataclasses.replace(lacking, exists=True)}) == []


def test_what_was_tried_counts_more_than_what_was_told():
    """Who may create on the cluster may create any topic; brokers do not tell that."""
    lacking = {**everything(), MIRROR: AuthorizedOperations(operations=frozenset(), exists=False)}
    codes = {each.code for each in told(lacking, tried={(MIRROR, "CREATE"): True})}
    assert codes == {"right-topic-alter-alter-configs-describe-configs"}
    (found,) = told(everything(), tried={(MIRROR, "CREATE"): False})
    assert found.code == "right-topic-create"
    cluster = ClientResource(client=Client.TARGET_ADMIN, kind=Kind.CLUSTER)
    (found,) = told(everything(None), tried={(cluster, "DESCRIBE_CONFIGS"): False})
    assert found.code == "right-cluster-describe-configs"


def test_what_many_topics_lack_alike_is_told_once_with_one_command():
    names = tuple(f"t{number}" for number in range(30))
    wanted = dataclasses.replace(WANTED, topics=names, mirrors=())
    held = {
        ClientResource(client=Client.CONSUMER, kind=Kind.TOPIC, name=name): AuthorizedOperations(
            operations=frozenset()
        )
        for name in names
    }
    (found,) = told(held, wanted)
    assert "30 topics (t0, t1, t2 and 27 more)" in found.text
    assert found.command.count("--topic") == 20


def test_settings_of_topics_that_nobody_judges_need_not_be_read():
    assert without(Client.WORKER, Kind.TOPIC, "heartbeats", "DESCRIBE_CONFIGS") == []
    (found,) = without(Client.WORKER, Kind.TOPIC, "heartbeats", "WRITE")
    assert (found.severity, found.effect) == (Weight.WARNING, "no heartbeats")


def test_what_is_not_wanted_needs_no_right():
    less = dataclasses.replace(
        WANTED,
        sync_acls=False,
        syncs_configs=False,
        has_visible_groups=True,
        synced_groups=(),
        reverse_flow_topics=(),
    )
    needs = required_acls.list_required_acls(less)
    assert not any("ALTER_CONFIGS" in each.operations for each in needs)
    assert {each.resource.name for each in needs if each.resource.kind is Kind.GROUP} == {
        "east-mm2"
    }
    assert len([each for each in needs if each.resource.kind is Kind.CLUSTER]) == 1
    least = required_acls.list_required_acls(dataclasses.replace(less, reads_brokers=False))
    assert not [each for each in least if each.resource.kind is Kind.CLUSTER]
