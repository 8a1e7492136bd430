"""A connector's own topic counts; the worker's is never ahead of it, and never brings back."""

from __future__ import annotations

from collections import deque

import pytest

from connect_runtime.base import errors
from connect_runtime.runtime.stores import connector_offsets, offset_store
from connect_runtime.system import clock
from tests.fakes import shared_log

A, B = {"p": "a"}, {"p": "b"}
NO = errors.RetriableError("refused")


class Stores:
    def __init__(self):
        self.own_topic = shared_log.FakeTopic(name="own")
        self.workers_topic = shared_log.FakeTopic(name="workers")
        self.own = offset_store.OffsetStore(shared_log.FakeSharedLog(self.own_topic))
        self.workers = offset_store.OffsetStore(shared_log.FakeSharedLog(self.workers_topic))
        self.own.start(1.0)
        self.workers.start(1.0)
        self.both = connector_offsets.ConnectorOffsets(
            self.own, self.workers, clock=clock.SystemClock()
        )

    def commit(self, *pairs):
        offset_store.commit(self.both, "c", pairs, timeout_s=0.05)

    def held(self):
        """What the connector's own topic has, and what the worker's."""
        return (
            self.own.read("c", [A, B], 1.0),
            self.workers.read("c", [A, B], 1.0),
        )


@pytest.fixture
def stores():
    return Stores()


def test_the_connectors_own_topic_wins(stores):
    offset_store.commit(stores.workers, "c", [(A, {"n": 1}), (B, {"n": 1})], timeout_s=1.0)
    offset_store.commit(stores.own, "c", [(A, {"n": 2})], timeout_s=1.0)
    assert stores.both.read("c", [A, B, {"p": "c"}], 1.0) == [{"n": 2}, {"n": 1}, None]
    assert stores.both.read_all("c", 1.0) == [(A, {"n": 2}), (B, {"n": 1})]
    assert stores.both.partitions("c", 1.0) == [A, B]


def test_all_goes_to_both(stores):
    stores.commit((A, {"n": 1}), (B, {"n": 2}))
    assert stores.held() == ([{"n": 1}, {"n": 2}], [{"n": 1}, {"n": 2}])
    stores.commit((A, None), (B, {"n": 3}))
    assert stores.held() == ([None, {"n": 3}], [None, {"n": 3}])


def test_what_its_own_topic_refuses_is_not_committed(stores):
    """testFlushFailureWhenWriteToPrimaryStoreFailsAndNoTombstones."""
    stores.own_topic.refusals = deque([NO])
    with pytest.raises(errors.RetriableError, match="refused"):
        stores.commit((A, {"n": 1}))
    assert stores.held() == ([None, None], [None, None])


def test_what_only_the_workers_topic_refuses_is_committed(stores, caplog):
    """testFlushSuccessWhenWriteToSecondaryStoreFailsForNonTombstoneOffsets."""
    stores.workers_topic.refusals = deque([NO])
    stores.commit((A, {"n": 1}))
    assert stores.held() == ([{"n": 1}, None], [None, None])
    assert "not copied to the worker's: refused" in caplog.text


def test_the_workers_topic_is_not_waited_for(stores):
    """testFlushSuccessWhenWriteToSecondaryStoreTimesOutForNonTombstoneOffsets."""
    with stores.workers_topic.unreachable():
        stores.commit((A, {"n": 1}))


def test_its_own_topic_is_waited_for(stores):
    """testFlushFailureWhenWriteToPrimaryStoreTimesOutAndNoTombstones."""
    with stores.own_topic.unreachable(), pytest.raises(errors.RetriableError, match="not ack"):
        stores.commit((A, {"n": 1}))


@pytest.mark.parametrize("kept", [(), ((B, {"n": 9}),)])
def test_what_the_workers_topic_does_not_forget_is_not_forgotten(stores, kept):
    """testFlushFailureWhenWriteToSecondaryStoreFailsForTombstoneOffsets, and with others."""
    stores.commit((A, {"n": 1}), (B, {"n": 2}))
    stores.workers_topic.refusals = deque([NO])
    with pytest.raises(errors.RetriableError, match="refused"):
        stores.commit((A, None), *kept)
    assert stores.held() == ([{"n": 1}, {"n": 2}], [{"n": 1}, {"n": 2}])


def test_forgetting_waits_for_the_workers_topic(stores):
    """testFlushFailureWhenWriteToSecondaryStoreTimesOutForTombstoneOffsets."""
    with stores.workers_topic.unreachable(), pytest.raises(errors.RetriableError, match="not ack"):
        stores.commit((A, None))


def test_forgetting_fails_with_its_own_topic(stores):
    """testFlushFailureWhenWritesToPrimaryStoreFailsForTombstoneOffsets: it is tried again."""
    stores.commit((A, {"n": 1}))
    stores.own_topic.refusals = deque([NO])
    with pytest.raises(errors.RetriableError, match="refused"):
        stores.commit((A, None))
    assert stores.held() == ([{"n": 1}, None], [None, None])
    stores.commit((A, None))
    assert stores.both.read("c", [A], 1.0) == [None]


def test_of_a_mixed_commit_the_copy_may_fail(stores):
    """testFlushSuccessWhenWriteToSecondaryStoreFailsForRegularOffsets, beside forgotten ones."""
    stores.commit((A, {"n": 1}))

    class FullOfValues(deque):
        """The topic takes what is forgotten, and nothing else."""

        def __bool__(self):
            return len(stores.workers_topic.records) > 1

        def popleft(self):
            return NO

    stores.workers_topic.refusals = FullOfValues()
    stores.commit((A, None), (B, {"n": 2}))
    stores.workers_topic.refusals = deque()
    assert stores.held() == ([None, {"n": 2}], [None, None])


def test_a_stopped_workers_store_does_no_harm_once_its_own_has_it(stores):
    stores.workers.stop(0.0)
    stores.commit((A, {"n": 1}))
    assert stores.own.read("c", [A], 1.0) == [{"n": 1}]
    with pytest.raises(errors.FatalError, match="stopped"):
        stores.commit((A, None))
