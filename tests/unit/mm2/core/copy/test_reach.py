"""What a copy may connect to ahead of its settings arrives as it was sent."""

from __future__ import annotations

import json

from mm2.core.copy import messages, reach


def test_what_is_told_is_what_is_read():
    source, target = (
        messages.ClusterAccess(
            alias=alias,
            bootstrap=(f"{alias}:1", f"{alias}:2"),
            security={"protocol": "SSL", "ca": None},
            client_id=f"{alias}-client",
            properties={"x": "1"},
        )
        for alias in ("a", "b")
    )
    wanted = reach.Reach(source=source, target=target, topics=("t", "u"), mirrors=("a.t", "a.u"))
    told = reach.message(wanted)
    assert told["type"] == "reach"
    assert reach.read(json.loads(json.dumps(told))) == wanted
