from __future__ import annotations

from connect_runtime.storage.config_topic import ConfigTopicState
from connect_runtime.storage.internal_topic_log import SkippedRecord
from connect_runtime.storage.offset_topic import OffsetTopicState
from connect_runtime.storage.status_topic import StatusTopicState


def test_every_fold_names_the_key_of_what_it_skips_and_never_the_value():
    for fold in (ConfigTopicState(), StatusTopicState()):
        answer = fold.apply_record(b"connector-x", b'{"properties":"hunter2"}', offset=0)
        assert isinstance(answer, SkippedRecord)
        assert "connector-x" in answer.reason
        assert "hunter2" not in answer.reason
    told = OffsetTopicState().apply_record(b"[]", b"hunter2", offset=0)
    assert isinstance(told, SkippedRecord)
    assert "hunter2" not in told.reason
