from __future__ import annotations

import sys

import pytest

from connect_runtime.base import terminal_escape


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("orders", "orders"),
        ("größe 注文 🙂 “x” …", "größe 注文 🙂 “x” …"),
        ("a\nb\rc\td", r"a\nb\rc\td"),
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b31m\x7f\x00", r"\x9b31m\x7f\x00"),
        ("gnp.\u202etxt\u2066", r"gnp.\u202etxt\u2066"),
        ("a\u2028b\u2029c\x85d", r"a\u2028b\u2029c\x85d"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("a\u3164b\u2800c\u17b4d\uffa0", r"a\u3164b\u2800c\u17b4d\uffa0"),
        ("a\ufe0fb\U000e0100\u180b\u034f", r"a\ufe0fb\U000e0100\u180b\u034f"),
        ("a\u0301\u0302\u0303b", "a\u0301\u0302\u0303b"),
        ("a\u0301\u0302\u0303\u0304\u20ddb\u0301", "a\u0301\u0302\u0303\\u0304\\u20ddb\u0301"),
        ("ที่ नमस्ते לְ", "ที่ नमस्ते לְ"),
        ("\ud83d lone", r"\ud83d lone"),
        ("", ""),
    ],
)
def test_what_is_not_printable_is_seen(text, escaped):
    assert terminal_escape.escape_unprintable(text) == escaped


def test_nothing_that_controls_a_terminal_is_left():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    shown = terminal_escape.escape_unprintable(every)
    assert shown.isprintable()
    shown.encode()


def test_lines_stay_lines_and_look_like_no_others():
    text = "Traceback:\n\tat x\r\n2026-01-31 INFO forged\x1b[2J"
    assert terminal_escape.escape_unprintable_except_newlines(text, indent="  ") == (
        "Traceback:\n      at x\\r\n  2026-01-31 INFO forged\\x1b[2J"
    )
