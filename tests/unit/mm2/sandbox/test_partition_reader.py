"""The comparison distinguishes a record with a malformed header name from one without headers."""

from __future__ import annotations

from mm2.sandbox import partition_reader


class Message:
    """As the library has it: reading a header name that is not UTF-8 raises `SystemError`."""

    def __init__(self, *, malformed: bool) -> None:
        self._malformed = malformed

    def __len__(self) -> int:
        return 1

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"

    def offset(self) -> int:
        return 0

    def timestamp(self) -> tuple[int, int]:
        return 1, 5

    def headers(self) -> None:
        if self._malformed:
            raise SystemError("returned a result with an exception set")


def test_a_lost_header_with_a_malformed_name_is_a_difference():
    malformed, without = (
        partition_reader._make_record_chunk([Message(malformed=each)]).contents
        for each in (True, False)
    )
    assert malformed != without
    assert malformed == partition_reader._make_record_chunk([Message(malformed=True)]).contents
