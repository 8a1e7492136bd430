from __future__ import annotations

import signal

from mm2 import exit_codes


def test_signals_end_with_128_and_their_number():
    assert exit_codes.INTERRUPTED == 128 + signal.SIGINT
    assert (exit_codes.DONE, exit_codes.FAILED, exit_codes.BAD_INPUT) == (0, 1, 2)
