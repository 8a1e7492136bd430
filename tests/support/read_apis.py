"""Every API whose responses our own wire client reads, with its versions."""

from __future__ import annotations

READ_BY_KIO = {
    "add_partitions_to_txn": (0, 3),
    "api_versions": (0, 3),
    "consumer_group_describe": (0, 1),
    "create_acls": (1, 3),
    "delete_groups": (0, 2),
    "describe_acls": (1, 3),
    "describe_cluster": (0, 0),
    "describe_groups": (0, 5),
    "describe_producers": (0, 0),
    "describe_share_group_offsets": (0, 0),
    "end_txn": (1, 3),
    "find_coordinator": (1, 6),
    "heartbeat": (3, 4),
    "init_producer_id": (1, 3),
    "join_group": (5, 9),
    "leave_group": (3, 5),
    "list_groups": (0, 5),
    "list_offsets": (4, 11),
    "metadata": (7, 13),
    "offset_commit": (2, 9),
    "offset_delete": (0, 0),
    "offset_fetch": (2, 9),
    "offset_for_leader_epoch": (2, 4),
    "sasl_authenticate": (0, 2),
    "sasl_handshake": (1, 1),
    "sync_group": (3, 5),
}
"""`offset_fetch` from 8 on is read group by group (`offset_fetch`)."""
