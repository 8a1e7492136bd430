"""In which order a connector's own offset store and the worker's are read and written.

A connector with `offsets.storage.topic` has a store of its own, which goes first; the worker's
keeps a copy, so that it can be taken over without loss. Only a deletion must reach the copy first:
what was deleted in one and is still in the other would come back (KAFKA-15018).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Records: TypeAlias = Mapping[bytes, bytes | None]


class Store(enum.Enum):
    """Where to."""

    CONNECTOR = "connector"
    WORKER = "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write. If one that is `decisive` fails, so does everything, and no later one is made;
    any other failure is only told as a warning."""

    store: Store
    records: Records = field(repr=False)
    decisive: bool = True


def writes(records: Records, *, stores: frozenset[Store]) -> tuple[Write, ...]:
    """One after the other, each when the one before it is acknowledged.

    What is decided by all decisive ones is the answer; the asker need not wait for others.
    """
    assert stores, "there is no store to write to"
    if stores != frozenset(Store):
        [only] = stores
        return (Write(store=only, records=records),)
    deleted = {key: value for key, value in records.items() if value is None}
    stored = {key: value for key, value in records.items() if value is not None}
    plan = [Write(store=Store.CONNECTOR, records=records)]
    if deleted:
        plan.insert(0, Write(store=Store.WORKER, records=deleted))
    if stored:
        plan.append(Write(store=Store.WORKER, records=stored, decisive=False))
    return tuple(plan)


def overlaid(worker: Mapping[bytes, bytes], connector: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """What was read from both: the connector's own word counts where it has one."""
    return {**worker, **connector}
