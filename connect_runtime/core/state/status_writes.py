"""Whether a status may be written, and written again when the first try was lost.

A status is what a worker believes; another one may know better. A safe write (for UNASSIGNED and
FAILED, which a worker says of what it no longer has) gives way to what was read of a newer
generation. That narrows the window in which two workers contradict each other; it closes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from connect_runtime.base import ids
from connect_runtime.core.state import status_log, status_records


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTicket:
    """One admitted write; hand it back to `may_retry`."""

    subject: status_records.Subject
    status: status_records.Status
    safe: bool
    life: int
    sequence: int


@dataclass(slots=True)
class _Subject:
    life: int
    sequence: int = 0


@dataclass(slots=True)
class StatusWrites:
    """Invariant: lives never repeat, so no ticket outlives the removal of its subject's status."""

    _generation: int = 0
    _lives: int = 0
    _subjects: dict[status_records.Subject, _Subject] = field(default_factory=dict)

    def admit(
        self,
        subject: status_records.Subject,
        status: status_records.Status,
        *,
        safe: bool,
        known: status_log.Statuses,
    ) -> WriteTicket | None:
        """A ticket to write it with, or None where another worker's word stands."""
        self._generation = status.generation
        if safe and not _gives_way_to(known.get(subject), status):
            return None
        entry = self._subjects.get(subject)
        if entry is None:
            self._lives += 1
            entry = self._subjects[subject] = _Subject(self._lives)
        entry.sequence += 1
        return WriteTicket(
            subject=subject, status=status, safe=safe, life=entry.life, sequence=entry.sequence
        )

    def observe(self, change: status_log.Change) -> None:
        """Hear what was read: whose status was removed is not to be brought back by a retry."""
        if not isinstance(change, status_log.StatusRemoved):
            return
        self._subjects.pop(change.subject, None)
        if isinstance(change.subject, str):
            for subject in list(self._subjects):
                if isinstance(subject, ids.ConnectorTaskId) and subject.connector == change.subject:
                    del self._subjects[subject]

    def may_retry(self, ticket: WriteTicket, *, known: status_log.Statuses) -> bool:
        """Is the lost write still worth making: nothing newer was said, by us or by others?

        (Java tries older plain writes again too, which may then come behind newer ones.)
        """
        entry = self._subjects.get(ticket.subject)
        if entry is None or (entry.life, entry.sequence) != (ticket.life, ticket.sequence):
            return False
        if ticket.status.generation != self._generation:
            return False
        return not ticket.safe or _gives_way_to(known.get(ticket.subject), ticket.status)


def _gives_way_to(known: status_records.Status | None, status: status_records.Status) -> bool:
    return (
        known is None
        or known.worker_id == status.worker_id
        or known.generation <= status.generation
    )
