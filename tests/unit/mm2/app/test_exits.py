from __future__ import annotations

import signal

from mm2.app import exits


def test_signals_end_with_128_and_their_number():
    assert exits.INTERRUPTED == 128 + signal.SIGINT
    assert (exits.DONE, exits.FAILED, exits.BAD_INPUT) == (0, 1, 2)
