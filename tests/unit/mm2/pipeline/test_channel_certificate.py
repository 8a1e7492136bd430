from __future__ import annotations

import ssl

from mm2.pipeline import channel_certificate

WALL_MS = 1_790_000_000_000


def test_each_run_has_a_certificate_of_its_own():
    first = channel_certificate.server_context(host="127.0.0.1", wall_ms=WALL_MS)
    other = channel_certificate.server_context(host="node-1", wall_ms=WALL_MS)
    assert len(first[1]) == 32
    assert first[1] != other[1]
    assert first[0].minimum_version is ssl.TLSVersion.TLSv1_2
