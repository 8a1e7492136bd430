"""What a preflight found: one line each with its word, what it means, and what mends it.

`judge` makes the table of it: a row for each cluster, each flow and the engine, a cell for each
word.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


class Word(enum.Enum):
    """What was looked at, in the order of looking: whoever fails early skips what is behind.

    `LISTENER`: what listens there is of another kind than `security.protocol` says, or brokers
    tell clients to come to addresses that cannot be reached from here.
    """

    DNS = "DNS"
    NETWORK = "NETWORK"
    LISTENER = "LISTENER"
    TLS = "TLS"
    AUTH = "AUTH"
    PROTOCOL = "PROTOCOL"
    RIGHTS = "RIGHTS"
    TOPICS = "TOPICS"
    SETTINGS = "SETTINGS"
    SPARK = "SPARK"


REACHING = (Word.DNS, Word.NETWORK, Word.LISTENER, Word.TLS, Word.AUTH, Word.PROTOCOL)
"""What is looked at of a cluster, before any flow is."""


class Weight(enum.Enum):
    """FAILED: something will not be mirrored, or not at all as was asked for. WARNING: it may go
    wrong later, or costs something. NOTE: worth knowing."""

    FAILED = "failed"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`subject` is a cluster's alias, a flow's name, or `ENGINE`.

    `code` is for programs and stays the same. `text` says what was seen, `means` what comes of it,
    `mend` what to do; `command` does it, or shows more, "" where nothing that could be typed would.
    `affects` names the topics that have this one cause. `also` are other subjects of the same.
    """

    subject: str
    word: Word
    weight: Weight
    code: str
    text: str
    means: str
    mend: str
    command: str = ""
    affects: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def subjects(self) -> tuple[str, ...]:
        return (self.subject, *self.also)


ENGINE = "spark"
"""The subject of what is found about slots."""


class Result(enum.Enum):
    """What stands in a cell. SKIPPED: something before it failed."""

    OK = "ok"
    FAILED = "FAILED"
    WARNING = "warning"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One subject; words that do not apply to it are in no cell."""

    subject: str
    cells: Mapping[Word, Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`findings` are in order: the heaviest first, then as looked at."""

    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Result:
        """OK also with notes."""
        weights = {each.weight for each in self.findings}
        if Weight.FAILED in weights:
            return Result.FAILED
        return Result.WARNING if Weight.WARNING in weights else Result.OK

    def reaches_none_of(self, aliases: Collection[str]) -> bool:
        """Did each of these clusters that was looked at fail by its name or its network?"""
        words = (Word.DNS, Word.NETWORK)
        rows = [row for row in self.rows if row.subject in aliases]
        return bool(rows) and all(
            any(row.cells.get(word) is Result.FAILED for word in words) for row in rows
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Of one subject: words that were looked at, and those that something before them hid."""

    subject: str
    seen: frozenset[Word]
    skipped: frozenset[Word] = frozenset()


def judge(looked: Iterable[Looked], findings: Collection[Finding]) -> Report:
    """What has the same cause is one finding, whatever subjects and topics it affects; a subject's
    own come in the order of the words."""
    rows = tuple(looked)
    places = {each.subject: number for number, each in enumerate(rows)}
    words = list(Word)
    weights = list(Weight)
    ordered = sorted(
        _merged(findings),
        key=lambda each: (
            weights.index(each.weight),
            places.get(each.subject, len(places)),
            words.index(each.word),
        ),
    )
    return Report(rows=tuple(_row(each, findings) for each in rows), findings=tuple(ordered))


def _merged(found: Iterable[Finding]) -> list[Finding]:
    alike: dict[Finding, list[Finding]] = {}
    for each in found:
        cause = dataclasses.replace(each, subject="", means="", affects=())
        alike.setdefault(cause, []).append(each)
    return [
        dataclasses.replace(
            members[0],
            means="; ".join(dict.fromkeys(each.means for each in members)),
            affects=tuple(dict.fromkeys(topic for each in members for topic in each.affects)),
            also=tuple(dict.fromkeys(each.subject for each in members))[1:],
        )
        for members in alike.values()
    ]


def _row(looked: Looked, findings: Collection[Finding]) -> Row:
    worst: dict[Word, Result] = dict.fromkeys(looked.skipped, Result.SKIPPED)
    worst |= dict.fromkeys(looked.seen, Result.OK)
    for each in findings:
        if each.subject != looked.subject:
            continue
        if each.weight is Weight.FAILED:
            worst[each.word] = Result.FAILED
        elif each.weight is Weight.WARNING and worst.get(each.word) is not Result.FAILED:
            worst[each.word] = Result.WARNING
    return Row(subject=looked.subject, cells={word: worst[word] for word in Word if word in worst})
