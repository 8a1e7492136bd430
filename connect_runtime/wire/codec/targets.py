"""Who a request is for: a broker by number or by the part it plays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

GROUP = 0
"""Coordinator kind of consumer and Connect groups."""
TRANSACTION = 1
"""Coordinator kind of transactional ids."""


@dataclass(frozen=True, slots=True)
class Node:
    """The broker with this id."""

    node_id: int

    def __str__(self) -> str:
        return f"broker {self.node_id}"


@dataclass(frozen=True, slots=True)
class AnyNode:
    """Whichever broker is at hand."""

    def __str__(self) -> str:
        return "any broker"


@dataclass(frozen=True, slots=True)
class Controller:
    """The broker that the cluster names as its controller (KRaft: any broker, it forwards)."""

    def __str__(self) -> str:
        return "the controller"


@dataclass(frozen=True, slots=True)
class Leader:
    """The partition's leader. Its topic has to be among the wanted ones."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"the leader of {self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The coordinator of a group (kind GROUP) or a transactional id (kind TRANSACTION)."""

    kind: int
    key: str

    def __str__(self) -> str:
        return f"the coordinator of {self.describe()}"

    def describe(self) -> str:
        return f"{'group' if self.kind == GROUP else 'transactional id'} {self.key}"


Target: TypeAlias = Node | AnyNode | Controller | Leader | Coordinator
