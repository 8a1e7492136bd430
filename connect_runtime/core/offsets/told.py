"""What users are told of viewing, altering and resetting offsets, in Java's words (Worker)."""

from __future__ import annotations

import enum


class Kind(enum.Enum):
    """Of a connector; the value is its name in messages."""

    SOURCE = "source"
    SINK = "sink"


class Change(enum.Enum):
    """What is done to offsets: as a verb and as its participle."""

    ALTER = ("alter", "altered")
    RESET = ("reset", "reset")

    @property
    def verb(self) -> str:
        return self.value[0]

    @property
    def done(self) -> str:
        return self.value[1]


def changed(change: Change, *, by_connector_too: bool) -> str:
    """It is done. `by_connector_too`: what its `alter_offsets` answered."""
    if by_connector_too:
        return f"The offsets for this connector have been {change.done} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {change.done} "
        "successfully. However, if this connector manages offsets externally, they will need to "
        f"be manually {change.done} in the system that the connector uses."
    )


def unsupported(connector: str) -> str:
    """The connector refuses to have its offsets changed by others."""
    return (
        f"Failed to modify offsets for connector {connector} because it doesn't support external "
        "modification of offsets"
    )


def not_read(kind: Kind, connector: str) -> str:
    """Of a sink these are its consumer group's."""
    what = "consumer group offsets" if kind is Kind.SINK else "offsets"
    return f"Failed to retrieve {what} for {kind.value} connector {connector}"


def not_changed(kind: Kind, connector: str) -> str:
    """For any reason that has no words of its own."""
    return f"Failed to modify offsets for {kind.value} connector {connector}"


def connector_too_slow(kind: Kind, connector: str) -> str:
    """Its `alter_offsets` took all the time there was."""
    return (
        f"Timed out while calling the 'alterOffsets' method for {kind.value} connector {connector}"
    )


def topic_too_slow(connector: str) -> str:
    """Of a source: what it has could not be read in time."""
    return (
        "Timed out while trying to read to the end of the offsets topic prior to modifying offsets "
        f"for source connector {connector}"
    )


def write_too_slow(connector: str) -> str:
    """Of a source."""
    return f"Timed out while attempting to modify offsets for source connector {connector}"


def not_listed(connector: str) -> str:
    """Of a sink: what its group has."""
    return f"Failed to list offsets prior to resetting offsets for sink connector {connector}"


def group_refused(change: Change, connector: str) -> str:
    """Of a sink: its group's offsets could not be changed."""
    sink = "sink " if change is Change.RESET else ""
    return f"Failed to {change.verb} consumer group offsets for {sink}connector {connector}"


def group_in_use(change: Change, connector: str) -> str:
    """Of a sink: somebody is in its group, and only its members may change offsets then."""
    return (
        f"Failed to {change.verb} consumer group offsets for connector {connector} either because "
        "its tasks haven't stopped completely yet or the connector was resumed before the request "
        f"to {change.verb} its offsets could be successfully completed. If the connector is in a "
        "stopped state, this operation can be safely retried. If it doesn't eventually succeed, "
        "the Connect cluster may need to be restarted to get rid of the zombie sink tasks."
    )
