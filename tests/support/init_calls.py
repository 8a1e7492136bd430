"""A call that needs no broker of a special kind, its answer, and who collects replies."""

from __future__ import annotations

import datetime

from connect_runtime.protocol import request_builders
from connect_runtime.protocol.request_builders import RequestBuilder
from tests.support.scripted_broker import Asked


def init() -> RequestBuilder:
    return request_builders.build_init_producer_id_request("tx", 1000)


def answer_init(asked: Asked, *, error: int = 0, throttle_ms: int = 0) -> None:
    asked.answer(
        asked.response(
            throttle_time=datetime.timedelta(milliseconds=throttle_ms),
            error_code=error,
            producer_id=7,
            producer_epoch=1,
        )
    )


class Replies(list):
    """Collects replies; each call of it must be the last for its request."""

    def count_failures(self) -> int:
        return sum(reply.failure is not None for reply in self)
