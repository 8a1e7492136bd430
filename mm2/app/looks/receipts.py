"""The receipts of a flow, as its topic on the target has them."""

from __future__ import annotations

from dataclasses import dataclass, field

from mm2.app.looks import sides
from mm2.core import naming
from mm2.formats import receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A record of the topic that is no receipt that this release can read. It may state a loss."""

    topic: str
    offset: int
    reason: str


@dataclass(slots=True, kw_only=True)
class Receipts:
    """`stated` oldest first; of a statement that was made again the last. `unreadable` as the topic
    has them."""

    stated: list[receipt.Receipt] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


def read(side: sides.OneSide, source: str, *, timeout_s: float) -> Receipts:
    """Those of the flow from `source`. Raises `RetriableError` and `FatalError` if the target
    cannot be read."""
    topic = naming.receipts_topic(source)
    found: dict[bytes, receipt.Receipt | Unreadable] = {}
    if topic not in side.topics.list_topics(timeout_s):  # whoever reads one waits for it
        return Receipts()
    for record in side.topics.read_topic(topic, timeout_s):
        if record.key is None:
            continue
        found.pop(record.key, None)
        if record.value is None:
            continue
        try:
            found[record.key] = receipt.decode(record.key, record.value)
        except receipt.MalformedReceiptError as error:
            found[record.key] = Unreadable(topic=topic, offset=record.offset, reason=str(error))
    stated = [each for each in found.values() if isinstance(each, receipt.Receipt)]
    return Receipts(
        stated=sorted(stated, key=lambda each: each.at_ms),
        unreadable=[each for each in found.values() if isinstance(each, Unreadable)],
    )
