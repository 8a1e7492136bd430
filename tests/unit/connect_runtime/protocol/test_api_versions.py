from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.protocol import api_versions
from connect_runtime.protocol.api_versions import ApiVersionRange, NodeApiVersions
from connect_runtime.protocol.request_errors import UnsupportedVersion


def broker(**ranges: tuple[int, int]) -> NodeApiVersions:
    return NodeApiVersions(
        address="b1:9092",
        ranges={api_versions.API_KEYS[api]: ApiVersionRange(*r) for api, r in ranges.items()},
    )


@pytest.mark.parametrize(
    ("offered", "asked", "chosen"),
    [
        ((4, 18), api_versions.FETCH_VERSIONS, 17),  # a newer broker
        ((4, 12), api_versions.FETCH_VERSIONS, 12),  # 2.8
        ((4, 13), api_versions.FETCH_VERSIONS, 13),  # 3.1
        ((14, 30), api_versions.FETCH_VERSIONS, 17),  # a broker that dropped old versions
    ],
)
def test_the_newest_common_version_is_chosen(offered, asked, chosen):
    low, high = asked
    assert (
        broker(fetch=offered).choose_version(api_versions.FETCH_KEY, low=low, high=high) == chosen
    )


def test_transactional_requests_stay_below_what_is_unsafe():
    newest = broker(
        produce=(3, 13), init_producer_id=(0, 5), add_partitions_to_txn=(0, 5), end_txn=(0, 5)
    )

    def chosen(api: str, asked: tuple[int, int]) -> int:
        return newest.choose_version(api_versions.API_KEYS[api], low=asked[0], high=asked[1])

    assert chosen("produce", api_versions.TRANSACTIONAL_PRODUCE_VERSIONS) == 11
    assert chosen("produce", api_versions.PRODUCE_VERSIONS) == 13
    assert chosen("init_producer_id", api_versions.INIT_PRODUCER_ID_VERSIONS) == 3
    assert chosen("add_partitions_to_txn", api_versions.ADD_PARTITIONS_TO_TXN_VERSIONS) == 3
    assert chosen("end_txn", api_versions.END_TXN_VERSIONS) == 3


def test_nothing_in_common_names_the_api_both_ranges_and_the_broker():
    with pytest.raises(UnsupportedVersion) as caught:
        broker(fetch=(0, 11)).choose_version(api_versions.FETCH_KEY, low=12, high=17)
    assert str(caught.value) == (
        "fetch: this client needs a version from 12 to 17, b1:9092 supports 0 to 11"
    )
    with pytest.raises(UnsupportedVersion, match="b1:9092 does not support it"):
        broker().choose_version(api_versions.FETCH_KEY, low=12, high=17)


RANGES = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda r: (min(r), max(r)))


@given(ours=RANGES, theirs=RANGES)
def test_choice_agrees_with_set_intersection(ours, theirs):
    both = set(range(ours[0], ours[1] + 1)) & set(range(theirs[0], theirs[1] + 1))
    known = broker(fetch=theirs)
    if both:
        assert known.choose_version(api_versions.FETCH_KEY, low=ours[0], high=ours[1]) == max(both)
        assert known.supports_version(api_versions.FETCH_KEY, max(both))
    else:
        with pytest.raises(UnsupportedVersion):
            known.choose_version(api_versions.FETCH_KEY, low=ours[0], high=ours[1])
    assert not known.supports_version(api_versions.FETCH_KEY, theirs[1] + 1)
