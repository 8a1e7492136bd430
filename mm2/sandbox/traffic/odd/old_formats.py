"""What is written to topics of formats before v2: brokers before 3.0 convert what clients send.

Version by topic setting: 0.9.0 writes v0 (no timestamps), 0.10.2 writes v1, 2.8 writes v2.
Compressed ones become wrappers, with absolute offsets inside (v0) or relative ones (v1); v0's lz4
frames carry the wrong header checksum that Kafka wrote before 0.10.
"""

from __future__ import annotations

from mm2.sandbox.traffic.odd import desk as desks

SETTING = "message.format.version"
V0, V1, V2 = "0.9.0", "0.10.2", "2.8"

_CODECS = ("none", "gzip", "snappy", "lz4")


def batches(desk: desks.Desk) -> None:
    """Every codec that these formats know; sets of many records, and of one."""
    for _ in range(desk.much(quick=2, full=60)):
        for codec in _CODECS:
            desk.send(desk.documents(desk.rng.randrange(2, 60)), codec=codec)
            desk.send(desk.documents(3), codec=codec, batch_num_messages=1, linger_ms=0)


def changing(desk: desks.Desk) -> None:
    """A topic as old as Kafka: v0, then v1, then v2 in one partition, and each once more."""
    for version in (V0, V1, V2, V1, V0, V2):
        desk.change_topic({SETTING: version})
        batches(desk)
