"""The receipts of a flow, as its topic on the target has them."""

from __future__ import annotations

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.looks import sides
from mm2.core import naming
from mm2.formats import receipt


def read(side: sides.OneSide, source: str, *, timeout_s: float) -> list[receipt.Receipt]:
    """Those of the flow from `source`, oldest first; of a statement that was made again the last.

    Raises `RetriableError` and `FatalError`, also where another release wrote one.
    """
    topic = naming.receipts_topic(source)
    stated: dict[bytes, receipt.Receipt] = {}
    try:
        records = side.topics.read_topic(topic, timeout_s)
    except kafka_errors.TopicMissingError:
        return []
    for record in records:
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
