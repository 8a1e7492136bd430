"""Finds out what one cluster can do for a mirror: `core/capabilities.Observed`, from the wire."""

from __future__ import annotations

from random import Random

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.wire.codec import by_topic
from connect_runtime.wire.connection import cluster
from mm2.core import capabilities
from mm2.pipeline import scratch_partition, single_questions, target_probe

_SUFFIX_BITS = 32


class ClusterProbe:
    """Probes over connections of its own; `settings` say how to reach the cluster."""

    def __init__(
        self,
        alias: str,
        settings: cluster.ConnectionSettings,
        *,
        clock: base_clock.Clock,
        random: Random,
    ) -> None:
        self._alias = alias
        self._settings = settings
        self._clock = clock
        self._random = random

    def source(self, topic: str | None = None) -> capabilities.Observed:
        """What a source speaks; `topic` is any of its topics, to see whether topics have ids.

        Raises `ConnectError` when it does not answer, or refuses us.
        """
        with self._questions() as questions:
            spoken = _spoken(questions, capabilities.Side.SOURCE)
            ids = None if topic is None else _has_id(questions, topic)
            return capabilities.Observed(alias=self._alias, spoken=spoken, topic_ids=ids)

    def target(self, topic: str, *, transactional_prefix: str) -> capabilities.Observed:
        """What a target speaks and does, tried on partition 0 of `topic`, which is our own.

        Raises `ConnectError` when it does not answer, or refuses us.
        """
        with self._questions() as questions:
            spoken = _spoken(questions, capabilities.Side.TARGET)
            suffix = f"{self._random.getrandbits(_SUFFIX_BITS):08x}"
            scratch = scratch_partition.WireScratchPartition(
                questions,
                topic=topic,
                transactional_id=f"{transactional_prefix}probe-{suffix}",
                clock=self._clock,
            )
            probe = target_probe.TargetProbe(scratch)
            probe.run()
            return capabilities.Observed(
                alias=self._alias,
                spoken=spoken,
                topic_ids=_has_id(questions, topic),
                checks=probe.answers,
            )

    def untried(self, error: errors.ConnectError) -> capabilities.Observed:
        """A target on which there is no topic of our own, because of `error`."""
        with self._questions() as questions:
            unknown = capabilities.Answer(outcome=capabilities.Outcome.UNKNOWN, detail=str(error))
            return capabilities.Observed(
                alias=self._alias,
                spoken=_spoken(questions, capabilities.Side.TARGET),
                checks=dict.fromkeys(capabilities.Check, unknown),
            )

    def _questions(self) -> single_questions.SingleQuestions:
        return single_questions.SingleQuestions(
            self._settings, clock=self._clock, random=self._random
        )


def _spoken(
    questions: single_questions.SingleQuestions, side: capabilities.Side
) -> dict[str, int | None]:
    node_id = questions.any_node()
    return {
        api.name: questions.spoken(node_id, api.key, (api.low, api.high))
        for api in capabilities.NEEDED[side]
    }


def _has_id(questions: single_questions.SingleQuestions, topic: str) -> bool | None:
    try:
        questions.leader(topic)
    except errors.ConnectError:
        return None
    return questions.topic_id(topic) != by_topic.NO_TOPIC_ID
