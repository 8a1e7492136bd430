"""What is asked for of a move that was begun."""

from __future__ import annotations

import dataclasses

import pytest

from mm2.failover import failover_request
from mm2.failover.failover_request import ClusterIds, FailoverKind, FailoverRequest

BEGUN = FailoverRequest(
    origin="east",
    destination="west",
    kind=FailoverKind.PLANNED,
    groups=frozenset({"billing"}),
)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, []),
        ({"kind": FailoverKind.EMERGENCY}, []),  # nothing is said of it
        ({"accepted": frozenset({"lag"})}, []),
        ({"groups": frozenset()}, []),
        ({"origin": "north"}, ["the failover goes from east to west"]),
        ({"kind": FailoverKind.BACK}, ["the journal is of a switch-over, not of a failback"]),
        ({"rewind": True}, ["the failover was begun without --rewind"]),
        ({"groups": frozenset({"x"})}, ["the failover was begun for these groups: billing"]),
        ({"export": "/tail"}, ["the failover exports records to no file"]),
    ],
)
def test_contradictions(asked, words):
    assert (
        failover_request.describe_contradictions(BEGUN, dataclasses.replace(BEGUN, **asked))
        == words
    )


def test_both_clusters_serve_in_all_but_an_emergency():
    kinds = {dataclasses.replace(BEGUN, kind=kind).is_planned: kind for kind in FailoverKind}
    assert kinds[False] is FailoverKind.EMERGENCY


IDS = ClusterIds(origin="idE", destination="idW")


@pytest.mark.parametrize(
    ("begun", "now", "words"),
    [
        (IDS, IDS, []),
        (IDS, ClusterIds(origin="", destination="idW"), []),  # it is silent now
        (ClusterIds(), IDS, []),
        (
            IDS,
            ClusterIds(origin="idW", destination="idE"),
            [
                "east was cluster idE when the failover began, and is idW in this file",
                "west was cluster idW when the failover began, and is idE in this file",
            ],
        ),
    ],
)
def test_aliases_that_lead_elsewhere_are_named_with_both_ids(begun, now, words):
    assert failover_request.describe_changed_clusters(BEGUN, begun, now) == words


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (FailoverKind.EMERGENCY, "mm2 failover --from east --to west --execute"),
        (FailoverKind.PLANNED, "mm2 failover --from east --to west --planned --execute"),
        (FailoverKind.BACK, "mm2 failback --from east --to west --execute"),
    ],
)
def test_what_is_typed_for_a_move(kind, line):
    assert dataclasses.replace(BEGUN, kind=kind).build_command("--execute") == line


def test_a_file_that_is_not_the_usual_one_is_named():
    begun = dataclasses.replace(BEGUN, file="my.yaml")
    line = "mm2 failover --from east --to west --config my.yaml --planned --resume"
    assert begun.build_command("--resume") == line
    assert failover_request.describe_contradictions(begun, BEGUN) == []


def test_what_is_typed_to_do_it_says_all_that_was_asked_for():
    asked = dataclasses.replace(
        BEGUN, accepted=frozenset({"lag", "rereads:billing"}), rewind=True, export="/a file"
    )
    assert asked.build_execute_command("--origin-lost") == (
        "mm2 failover --from east --to west --planned --origin-lost --group billing "
        "--accept lag --accept rereads:billing --rewind --export '/a file' --execute"
    )


def test_what_is_accepted_holds_for_all_groups_or_for_the_one_that_is_named():
    about = FailoverRequest(
        origin="east",
        destination="west",
        kind=FailoverKind.PLANNED,
        accepted=frozenset({"lag-unknown", "group-active:mail"}),
    )
    assert about.is_finding_accepted("lag-unknown")
    assert about.is_finding_accepted("lag-unknown", "mail")
    assert about.is_finding_accepted("group-active", "mail")
    assert not about.is_finding_accepted("group-active", "billing")
    assert not about.is_finding_accepted("group-active")
