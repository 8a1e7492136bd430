"""How long a source is waited for."""

from __future__ import annotations

import pytest

from mm2.app.looks import mirrors


@pytest.mark.parametrize(
    ("timeout_s", "asked_s"), [(1.0, 1.0), (10.0, 10.0), (60.0, 10.0), (300.0, 50.0)]
)
def test_a_longer_look_asks_a_source_for_longer(timeout_s, asked_s):
    assert mirrors.source_s(timeout_s) == asked_s
