"""One process that compares logs: connect to who asks, be told which, compare, tell, leave.

Runs where copies run: in a Spark task's Python process, or in a thread (`inline`). Credentials come
over the control channel only. One partition is compared at a time, and all of its digests are held
at once (`matching.records_max`): what would take more memory than it may is left, and told.
"""

from __future__ import annotations

from random import Random
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.base import errors, ids
from connect_runtime.system import clock
from connect_runtime.wire.connection import poller
from mm2.core.copy import compared_logs, match_messages, messages, opening, record_transforms
from mm2.core.copy import setup as copy_setup
from mm2.core.offsets import matching
from mm2.pipeline import client_options, control_client, single_questions, whole_log

ENTRY = "mm2.pipeline.match_process:run"
CONNECT_S = 15.0
CONFIGURE_S = 30.0
_TURN_S = 0.25
_DRAIN_S = 60.0


class GoneError(errors.FatalError):
    """Who asked is gone: nobody wants to know any more."""


class MatchProcess:
    """Ends when all is told, or who asked is gone."""

    def __init__(self, address: str, token: bytes) -> None:
        self._clock = clock.SystemClock()
        self._poller = poller.Poller()
        self._channel = control_client.ControlClient(
            address,
            token,
            self._poller,
            now=self._clock,
            on_message=self._on_message,
            on_closed=self._on_closed,
        )
        self._settings: messages.Configure | None = None
        self._asked: match_messages.Asked | None = None
        self._gone = ""

    def run(self) -> None:
        """Raises `ConnectFailedError`, and `GoneError`."""
        self._channel.connect(CONNECT_S)
        try:
            until_s = self._clock.now_s() + CONFIGURE_S
            while self._asked is None:
                if self._clock.now_s() > until_s:
                    raise GoneError("nobody said what to compare")
                self._turn(_TURN_S)
            self._compare_all(self._asked)
            self._channel.send({"type": "ended"})
            self._channel.drain(_DRAIN_S)
        finally:
            self._channel.close()
            self._poller.close()

    def _compare_all(self, asked: match_messages.Asked) -> None:
        settings = self._settings
        assert settings is not None, "configure comes first"
        random = Random()  # noqa: S311 - jitter, not secrets
        chain = record_transforms.chain(settings.transforms, load=config_types.load_class)
        wheres = {
            ids.TopicPartition(each.topic, each.partition): each for each in settings.partitions
        }
        try:
            with (
                single_questions.SingleQuestions(
                    client_options.connection_settings(settings.source),
                    clock=self._clock,
                    random=random,
                ) as source,
                single_questions.SingleQuestions(
                    client_options.connection_settings(settings.target),
                    clock=self._clock,
                    random=random,
                ) as target,
            ):
                for each in asked.bounds:
                    where = wheres[each.partition]
                    transform = None if chain is None else chain.of(where)
                    found = self._compared(
                        each, where, transform, sides=(source, target), asked=asked
                    )
                    for message in match_messages.answer(found):
                        self._channel.send(message)
                    self._channel.drain(_DRAIN_S)
        finally:
            if chain is not None:
                chain.close()

    def _compared(
        self,
        bounds: match_messages.Bounds,
        where: copy_setup.PartitionSetup,
        transform: opening.Transform | None,
        *,
        sides: tuple[single_questions.SingleQuestions, single_questions.SingleQuestions],
        asked: match_messages.Asked,
    ) -> match_messages.Compared:
        mirror = ids.TopicPartition(where.remote_topic, where.partition)
        try:
            target = self._read(
                sides[1],
                mirror,
                upto=bounds.target_to,
                records_max=matching.records_max(asked.memory_bytes),
            )
            source = self._read(
                sides[0],
                bounds.partition,
                upto=bounds.source_to,
                records_max=matching.records_max(asked.memory_bytes, target=len(target.items)),
                optional_aborted=True,
                opposite=bounds.opposite,
                transform=transform,
            )
        except GoneError:
            raise
        except errors.ConnectError as error:
            return match_messages.Compared(partition=bounds.partition, why=str(error))
        return match_messages.Compared(
            partition=bounds.partition,
            matched=matching.match(source.items, target.items, all_differ=asked.all_differ),
            source=len(source.items),
            target=len(target.items),
        )

    def _read(
        self,
        questions: single_questions.SingleQuestions,
        partition: ids.TopicPartition,
        *,
        upto: int,
        **more: Any,
    ) -> compared_logs.ComparedLog:
        """What is to be read is waited for: a mirror that was read in part is nobody's to go on
        from."""
        log = whole_log.WholeLog(questions, partition, clock=self._clock, turn=self._turn)
        log.stable_to(upto)
        found = compared_logs.ComparedLog(
            start=log.start(), upto=log.end() if upto < 0 else upto, **more
        )
        log.read(found)
        return found

    def _turn(self, wait_s: float) -> None:
        self._poller.poll(wait_s)
        if self._gone:
            raise GoneError(self._gone)

    def _on_closed(self, reason: str) -> None:
        self._gone = self._gone or f"who asked is gone: {reason}"

    def _on_message(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "configure":
                self._settings = messages.read_configure(message)
            case "match":
                self._asked = match_messages.read_ask(message)


def run(address: str, token: bytes, _attempt: int) -> None:
    """Entry of an engine (`ENTRY`)."""
    MatchProcess(address, token).run()
