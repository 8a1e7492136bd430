"""The receipts of a flow, as its topic on the target has them."""

from __future__ import annotations

from connect_runtime.base import errors
from mm2.app.looks import sides
from mm2.core import naming
from mm2.formats import receipt


def read(side: sides.OneSide, source: str, *, timeout_s: float) -> list[receipt.Receipt]:
    """Those of the flow from `source`, oldest first; of a statement that was made again the last.

    Raises `RetriableError` and `FatalError`, also where another release wrote one.
    """
    topic = naming.receipts_topic(source)
    stated: dict[bytes, receipt.Receipt] = {}
    if topic not in side.topics.list_topics(timeout_s):  # whoever reads one waits for it
        return []
    for record in side.topics.read_topic(topic, timeout_s):
        if record.key is None:
            continue
        stated.pop(record.key, None)
        if record.value is None:
            continue
        try:
            stated[record.key] = receipt.decode(record.key, record.value)
        except (receipt.UnknownVersionError, ValueError, KeyError, TypeError) as error:
            raise errors.FatalError(
                f"reading {topic} of {side.alias} at offset {record.offset}: {error}. Another "
                "release, or another program, wrote it: use that release"
            ) from error
    return sorted(stated.values(), key=lambda each: each.at_ms)
