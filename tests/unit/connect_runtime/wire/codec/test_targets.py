from __future__ import annotations

from connect_runtime.wire.codec import targets


def test_targets_read_well_in_messages_and_compare_by_value():
    named = {
        targets.Node(3): "broker 3",
        targets.AnyNode(): "any broker",
        targets.Controller(): "the controller",
        targets.Leader("orders", 7): "the leader of orders-7",
        targets.Coordinator(targets.GROUP, "g"): "the coordinator of group g",
        targets.Coordinator(targets.TRANSACTION, "tx"): "the coordinator of transactional id tx",
    }
    assert {target: str(target) for target in named} == named
    assert targets.Leader("orders", 7) in named
