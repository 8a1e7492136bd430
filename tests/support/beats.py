"""Heartbeats into a cluster, as the flow that leads there writes them, while a test goes on."""

from __future__ import annotations

import threading

import confluent_kafka

from connect_runtime.system import clock
from mm2.formats import heartbeat
from tests.support import kafka, rounds

TOPIC = "heartbeats"
EVERY_S = 1.0


class Beats(rounds.Rounds):
    """One a second. The topic has to be there."""

    def __init__(self, properties: kafka.Properties, *, home: str) -> None:
        super().__init__("beats")
        self._home = home
        self._clock = clock.SystemClock()
        self._producer = confluent_kafka.Producer(kafka.client_config(properties))

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(EVERY_S):
            beat = heartbeat.Heartbeat(
                source="else", target=self._home, at_ms=self._clock.wall_ms()
            )
            key, value = heartbeat.encode(beat)
            kafka.send(self._producer, TOPIC, [kafka.Outgoing(key=key, value=value)])
            kafka.flush(self._producer)
            self.rounds += 1
