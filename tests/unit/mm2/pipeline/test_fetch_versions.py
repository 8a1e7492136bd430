from __future__ import annotations

from connect_runtime.wire.codec import by_topic, versions
from mm2.pipeline import fetch_versions

ID = bytes(15) + b"1"


def test_topics_with_ids_are_read_in_any_version():
    assert fetch_versions.of([ID, ID]) == versions.FETCH


def test_one_topic_without_an_id_makes_them_all_be_named():
    assert fetch_versions.of([ID, by_topic.NO_TOPIC_ID]) == (12, 12)
