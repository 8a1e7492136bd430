"""Heartbeats into a cluster, as the flow that leads there writes them, while a test goes on."""

from __future__ import annotations

import threading

import confluent_kafka

from connect_runtime.system.system_clock import SystemClock
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Heartbeat
from tests.support import kafka
from tests.support.kafka import Outgoing, Properties
from tests.support.rounds import Rounds

TOPIC = "heartbeats"
EVERY_S = 1.0


class Beats(Rounds):
    """One a second. The topic has to be there."""

    def __init__(self, properties: Properties, *, home: str) -> None:
        super().__init__("beats")
        self._home = home
        self._clock = SystemClock()
        self._producer = confluent_kafka.Producer(kafka.client_config(properties))

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(EVERY_S):
            beat = Heartbeat(source="else", target=self._home, at_ms=self._clock.wall_ms())
            key, value = mirrormaker2_records.encode_heartbeat(beat)
            kafka.send(self._producer, TOPIC, [Outgoing(key=key, value=value)])
            kafka.flush(self._producer)
            self.rounds += 1
