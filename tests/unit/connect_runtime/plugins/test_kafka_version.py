from __future__ import annotations

import re

from connect_runtime.plugins import kafka_version


def test_it_is_a_release():
    assert re.fullmatch(r"\d+\.\d+\.\d+", kafka_version.KAFKA_VERSION)
