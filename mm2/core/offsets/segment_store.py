"""The segments of one partition's map, kept as they were stored.

A run takes two or three bytes so, and fifty times that as an object: a compacted topic's map has
millions of them, of which hardly any is ever looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mm2.formats import map_record


class SegmentStore(Mapping[map_record.SegmentKey, map_record.Segment]):
    """A segment is decoded whenever it is asked for."""

    def __init__(
        self, segments: Mapping[map_record.SegmentKey, map_record.Segment] | None = None
    ) -> None:
        self._values: dict[map_record.SegmentKey, bytes] = {}
        for key, segment in (segments or {}).items():
            self.keep(key, map_record.encode_value(segment))

    def keep(self, key: map_record.SegmentKey, value: bytes | None) -> None:
        """The value as it stands in the map topic; None for none any more."""
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def __getitem__(self, key: map_record.SegmentKey) -> map_record.Segment:
        found = map_record.decode_value(key, self._values[key])
        assert isinstance(found, map_record.Segment)
        return found

    def __iter__(self) -> Iterator[map_record.SegmentKey]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
