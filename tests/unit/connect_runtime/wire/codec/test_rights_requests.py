from __future__ import annotations

import pytest

from connect_runtime.wire.codec import rights_requests


@pytest.mark.parametrize("version", range(8, 14))
def test_rights_on_topics_are_asked_for_in_every_version(version):
    request = rights_requests.topics(["a", "b"]).entity(version)
    assert [each.name for each in request.topics] == ["a", "b"]
    assert request.include_topic_authorized_operations
    assert not request.allow_auto_topic_creation


@pytest.mark.parametrize("version", range(3, 6))
def test_rights_on_a_group_are_asked_for_in_every_version(version):
    request = rights_requests.group("g").entity(version)
    assert request.groups == ("g",)
    assert request.include_authorized_operations


def test_rights_on_the_cluster_are_asked_for():
    assert rights_requests.cluster().entity(0).include_cluster_authorized_operations


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0, frozenset()),
        (1 << 3, {"READ"}),
        (1 << 3 | 1 << 8 | 1 << 10, {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}),
        (1 << 30, frozenset()),
        (-(2**31), None),
    ],
)
def test_bits_are_words_and_the_lowest_number_is_no_answer(bits, words):
    assert rights_requests.operations(bits) == words
