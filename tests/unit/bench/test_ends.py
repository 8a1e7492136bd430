from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v2 import response
from kio.static.primitive import i32, i64

from tests.bench import ends


def answer(code: ErrorCode, offset: int) -> response.ListOffsetsPartitionResponse:
    return response.ListOffsetsPartitionResponse(
        partition_index=i32(0), error_code=code, offset=i64(offset)
    )


def test_an_offset_is_an_offset():
    assert ends.offset_of(answer(ErrorCode.none, 1234)) == 1234


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
    ],
)
def test_a_partition_that_is_just_being_made_is_empty(code):
    assert ends.offset_of(answer(code, -1)) == 0


def test_any_other_error_is_raised():
    with pytest.raises(RuntimeError, match="topic_authorization_failed"):
        ends.offset_of(answer(ErrorCode.topic_authorization_failed, -1))
