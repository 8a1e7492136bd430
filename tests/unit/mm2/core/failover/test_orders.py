"""What is asked for of a move that was begun."""

from __future__ import annotations

import dataclasses

import pytest

from mm2.core.failover import orders

BEGUN = orders.Wanted(
    origin="east",
    destination="west",
    kind=orders.Kind.PLANNED,
    groups=frozenset({"billing"}),
)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, []),
        ({"kind": orders.Kind.EMERGENCY}, []),  # nothing is said of it
        ({"accepted": frozenset({"lag"})}, []),
        ({"groups": frozenset()}, []),
        ({"origin": "north"}, ["it moves from east to west"]),
        ({"kind": orders.Kind.BACK}, ["it is a switch-over, no failback"]),
        ({"sets_back": True}, ["it sets no group back"]),
        ({"groups": frozenset({"x"})}, ["its groups are billing"]),
        ({"export": "/tail"}, ["it exports to no file"]),
    ],
)
def test_contradictions(asked, words):
    assert orders.contradictions(BEGUN, dataclasses.replace(BEGUN, **asked)) == words


def test_both_clusters_serve_in_all_but_an_emergency():
    kinds = {dataclasses.replace(BEGUN, kind=kind).planned: kind for kind in orders.Kind}
    assert kinds[False] is orders.Kind.EMERGENCY
