from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.builtin.connectors import line_splitter


def lines(*chunks: bytes) -> list[tuple[bytes, int]]:
    splitter = line_splitter.LineSplitter()
    found = []
    for chunk in chunks:
        splitter.put(chunk)
        while (line := splitter.next_line()) is not None:
            found.append(line)
    return found


def test_three_ways_to_end_a_line():
    assert lines(b"a\nb\r\nc\rd\n\n") == [(b"a", 2), (b"b", 3), (b"c", 2), (b"d", 2), (b"", 1)]


def test_a_line_that_has_no_end_yet_waits():
    assert lines(b"ab") == []
    assert lines(b"ab", b"c", b"\n") == [(b"abc", 4)]


def test_half_an_end_waits_for_the_other_half():
    assert lines(b"a\r") == []
    assert lines(b"a\r", b"\nb\n") == [(b"a", 3), (b"b", 2)]
    assert lines(b"a\r", b"b\n") == [(b"a", 2), (b"b", 2)]


@given(
    parts=st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n", b"\r\n"])),
    cuts=st.lists(st.integers(0, 60)),
)
def test_chunks_make_no_difference(parts, cuts):
    whole = b"".join(parts)
    places = sorted({0, len(whole), *(each for each in cuts if each < len(whole))})
    chunks = [whole[a:b] for a, b in itertools.pairwise(places)]
    assert lines(*chunks) == lines(whole)
    taken = sum(size for _, size in lines(whole))
    ends = {b"", b"\n", b"\r"}
    assert whole[:taken][-1:] in ends
    assert b"\n" not in whole[taken:]
