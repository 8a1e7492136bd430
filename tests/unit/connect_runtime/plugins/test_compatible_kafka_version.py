from __future__ import annotations

import re

from connect_runtime.plugins import compatible_kafka_version


def test_it_is_a_release():
    assert re.fullmatch(r"\d+\.\d+\.\d+", compatible_kafka_version.KAFKA_VERSION)
