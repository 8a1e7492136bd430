"""Builds the transactional ids with which a flow fences its partitions on the target."""

from __future__ import annotations

from connect_runtime.base.ids import TopicPartition


def format_transactional_id_prefix(flow: str) -> str:
    """Format the prefix of all transactional ids of a flow, for ACLs. `flow` is the flow's name,
    `east->west`."""
    return f"mm2-{flow}-"


def format_transactional_id(flow: str, partition: TopicPartition) -> str:
    """Format the transactional id, used on the target, that fences a source partition of a flow."""
    return f"{format_transactional_id_prefix(flow)}{partition.topic}-{partition.partition}"
