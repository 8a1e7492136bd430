"""What a copy may connect to before it is told what to copy: the first message of all, if it comes.

The other messages are in `messages`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.copy import messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a copy will have to do with, before it is told what to copy: clusters, and topics on
    them."""

    source: messages.ClusterAccess
    target: messages.ClusterAccess
    topics: tuple[str, ...]
    mirrors: tuple[str, ...]


def message(wanted: Reach) -> messages.Message:
    return {
        "type": "reach",
        "source": messages.access_message(wanted.source),
        "target": messages.access_message(wanted.target),
        "topics": list(wanted.topics),
        "mirrors": list(wanted.mirrors),
    }


def read(told: messages.Message) -> Reach:
    return Reach(
        source=messages.read_access(told["source"]),
        target=messages.read_access(told["target"]),
        topics=tuple(told["topics"]),
        mirrors=tuple(told["mirrors"]),
    )
