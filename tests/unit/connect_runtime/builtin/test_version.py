from __future__ import annotations

import re

from connect_runtime.builtin import version


def test_it_is_a_release():
    assert re.fullmatch(r"\d+\.\d+\.\d+", version.KAFKA)
