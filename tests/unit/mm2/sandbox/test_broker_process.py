from __future__ import annotations

import re

from mm2.sandbox import broker_process


def test_cluster_ids_never_look_like_an_option():
    """One in 64 random ids starts with a hyphen, and the storage tool refuses that."""
    ids = [broker_process.make_cluster_id() for _ in range(2000)]

    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", each) for each in ids)
    assert len(set(ids)) == 2000
