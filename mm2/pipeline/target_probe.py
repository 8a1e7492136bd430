"""Tries on a scratch partition of the target what exactly once rests on, step by step.

Two owners, one after the other: the first writes, sends again and leaves a gap; the second fences
it, and the first tries once more. What the broker does is noted as it is; `core/capabilities`
decides what follows.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from connect_runtime.base import errors
from mm2.core import capabilities
from mm2.pipeline import fenced_partition

OUT_OF_ORDER, DUPLICATE_SEQUENCE, INVALID_EPOCH, FENCED = 45, 46, 47, 90
DENIED_ID = 53
DENIED_HERE = frozenset({29, 31})
"""TOPIC_ and CLUSTER_AUTHORIZATION_FAILED: of the scratch topic, which says nothing of mirrors."""
PASSING = frozenset({3, 5, 6, 7, 13, 19, 20, 56, 74, 75, 89})
"""While leaders move, replicas are missing, a disk or a quota is full: brokers' answers of the
moment, which say nothing of what they can do."""
GAP = 1000


_Answer = TypeVar("_Answer", bound=fenced_partition.Owner | fenced_partition.Refused | int | None)


class ScratchPartition(Protocol):
    """A partition of our own. Every call waits, and raises `ConnectError` when nobody answers."""

    def new_owner(self) -> fenced_partition.Owner | fenced_partition.Refused:
        """InitProducerId with the transactional id of this probe."""

    def new_plain_owner(self) -> fenced_partition.Owner | fenced_partition.Refused:
        """InitProducerId without a transactional id: nobody can fence it."""

    def commit_empty(self, owner: fenced_partition.Owner) -> fenced_partition.Refused | None:
        """A transaction with nothing in it."""

    def marker_seen(self, owner: fenced_partition.Owner) -> bool:
        """Can the marker of its empty transaction be read, within a deadline?"""

    def end(self) -> int:
        """The offset that the next batch gets."""

    def send(self, owner: fenced_partition.Owner, sequence: int) -> int | fenced_partition.Refused:
        """A batch of one record, outside transactions; its acknowledged offset."""

    def unchanged(self, offset: int) -> bool:
        """Does the batch that `send` sent last stand at `offset`, byte for byte?"""


class TargetProbe:
    """`run` once. Answers stay where they are when a later step cannot be taken."""

    def __init__(self, scratch: ScratchPartition) -> None:
        self._scratch = scratch
        self.answers: dict[capabilities.Check, capabilities.Answer] = {}

    def run(self) -> None:
        """Never raises for what the cluster does: what was not tried stays unknown."""
        try:
            self._try_all()
        except errors.ConnectError as error:
            for check in capabilities.Check:
                unknown = capabilities.Answer(
                    outcome=capabilities.Outcome.UNKNOWN, detail=str(error)
                )
                self.answers.setdefault(check, unknown)

    def _try_all(self) -> None:
        first = self._take()
        if first is None:
            self._try_unfenced()
            return
        if not self._write(first):
            return
        second = self._take()
        if second is None:
            return
        late = self._send(first, 1)
        self._note(
            capabilities.Check.FENCE,
            f"epoch {first.epoch} of producer {first.id} is answered {_told(late)} after epoch "
            f"{second.epoch} of {second.id} wrote",
            holds=isinstance(late, fenced_partition.Refused)
            and late.code in {INVALID_EPOCH, FENCED},
        )
        own = self._send(second, 0)
        self._note(
            capabilities.Check.SUCCESSOR,
            f"answered {_told(own)}",
            holds=not isinstance(own, fenced_partition.Refused),
        )

    def _try_unfenced(self) -> None:
        """What is left without a fence: numbered batches of a producer of one's own."""
        owner = _lasting(self._scratch.new_plain_owner())
        if isinstance(owner, fenced_partition.Refused):
            self._note_refusal(capabilities.Check.OFFSET, owner)
        else:
            self._write(owner)

    def _take(self) -> fenced_partition.Owner | None:
        """A new owner whose marker was read; None: that is as far as it goes."""
        owner = _lasting(self._scratch.new_owner())
        if isinstance(owner, fenced_partition.Refused):
            self._note_refusal(capabilities.Check.TRANSACTIONAL_ID, owner)
            return None
        refused = _lasting(self._scratch.commit_empty(owner))
        if refused is not None:
            self._note_refusal(capabilities.Check.TRANSACTIONAL_ID, refused)
            return None
        self._note(capabilities.Check.TRANSACTIONAL_ID, holds=True)
        seen = self._scratch.marker_seen(owner)
        self._note(capabilities.Check.MARKER, "it did not become readable in time", holds=seen)
        return owner if seen else None

    def _write(self, owner: fenced_partition.Owner) -> bool:
        expected = self._scratch.end()
        sent = self._send(owner, 0)
        if isinstance(sent, fenced_partition.Refused):
            self._note_refusal(capabilities.Check.OFFSET, sent)
            return False
        self._note(
            capabilities.Check.OFFSET, f"{sent} where {expected} was next", holds=sent == expected
        )
        self._note(
            capabilities.Check.UNCHANGED,
            "other bytes are read",
            holds=self._scratch.unchanged(expected),
        )
        again = self._send(owner, 0)
        stored_twice = self._scratch.end() != expected + 1
        refused = isinstance(again, fenced_partition.Refused) and again.code != DUPLICATE_SEQUENCE
        self._note(
            capabilities.Check.DUPLICATE,
            "it is stored again" if stored_twice else f"answered {_told(again)}",
            holds=not stored_twice and not refused,
        )
        gap = self._send(owner, GAP)
        self._note(
            capabilities.Check.SEQUENCE,
            f"answered {_told(gap)}",
            holds=isinstance(gap, fenced_partition.Refused) and gap.code == OUT_OF_ORDER,
        )
        return True

    def _send(self, owner: fenced_partition.Owner, sequence: int) -> int | fenced_partition.Refused:
        return _lasting(self._scratch.send(owner, sequence))

    def _note(self, check: capabilities.Check, otherwise: str = "", *, holds: bool) -> None:
        """What failed once stays failed."""
        if holds:
            self.answers.setdefault(check, capabilities.HOLDS)
        else:
            self.answers[check] = capabilities.Answer(
                outcome=capabilities.Outcome.FAILS, detail=otherwise
            )

    def _note_refusal(self, check: capabilities.Check, refused: fenced_partition.Refused) -> None:
        outcome = capabilities.Outcome.FAILS
        if refused.code == DENIED_ID:
            outcome = capabilities.Outcome.DENIED
        elif refused.code in DENIED_HERE:
            outcome = capabilities.Outcome.UNKNOWN
        self.answers[check] = capabilities.Answer(outcome=outcome, detail=str(refused))


def _lasting(answer: _Answer) -> _Answer:
    """Raises `RetriableError` for a refusal that may be another one the next time."""
    if isinstance(answer, fenced_partition.Refused) and answer.code in PASSING:
        raise errors.RetriableError(f"the broker answered {answer}: probe again when that is over")
    return answer


def _told(answer: int | fenced_partition.Refused) -> str:
    return str(answer) if isinstance(answer, fenced_partition.Refused) else f"offset {answer}"
