"""Transforms of records: such as only tests have, until users bring their own."""

from __future__ import annotations

from mm2.formats.record_codec import RecordFields


class Filter:
    """Leaves out records with these values, and changes all others if told to."""

    name = "filter"
    deterministic = True

    def __init__(self, *left_out: bytes | None, change: bytes = b"") -> None:
        self.left_out = frozenset(left_out)
        self.change = change
        self.seen: list[tuple[RecordFields, int]] = []

    def __call__(self, fields: RecordFields, timestamp_ms: int) -> RecordFields | None:
        self.seen.append((fields, timestamp_ms))
        if fields.value in self.left_out:
            return None
        value = self.change + fields.value if fields.value is not None else None
        return fields._replace(value=value)
