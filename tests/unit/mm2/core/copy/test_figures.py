from __future__ import annotations

import math

from mm2.core.copy import figures, instructions, setup
from tests.fakes import copying

batch = copying.batch
LOG = tuple(batch(at) for at in range(8))


def test_nothing_is_known_of_a_copy_that_has_not_begun():
    copy = copying.World(*LOG).copy
    assert (figures.copied_to(copy), figures.oldest_ms(copy)) == (-1, -1)


def test_what_is_acknowledged_outside_transactions_is_copied():
    world = copying.begun(*LOG)
    world.offer(*LOG[:2])
    world.send()
    assert figures.copied_to(world.copy) == 0
    world.acknowledge()
    assert figures.copied_to(world.copy) == 1


def test_what_a_transaction_holds_counts_as_copied_once_it_is_committed():
    world = copying.begun(*LOG, delivery=setup.Delivery.TRANSACTIONAL)
    assert figures.copied_to(world.copy) == 0
    world.offer(*LOG[:2])
    world.tick()
    world.send()
    world.acknowledge()
    world.withheld = {instructions.CommitTransaction}
    world.acknowledge()
    world.tick(after_s=1.0)
    assert figures.copied_to(world.copy) == 0
    world.withheld = set()
    assert world.open is not None
    world.do([world.open])
    assert figures.copied_to(world.copy) == 2


def test_the_oldest_record_not_copied_is_queued_or_the_newest_copied_one_or_none():
    world = copying.begun(*LOG)
    assert figures.oldest_ms(world.copy) == -1
    world.offer(batch(0, timestamp=copying.FRESH - 9))
    assert figures.oldest_ms(world.copy) == copying.FRESH - 9
    world.send()
    assert figures.oldest_ms(world.copy) == copying.FRESH - 9
    world.acknowledge()
    assert figures.oldest_ms(world.copy) == -1
    world.copy.source.end = 5
    assert figures.oldest_ms(world.copy) == copying.FRESH - 9


def test_what_no_anchor_tells_of_is_dated_until_it_is_stored():
    world = copying.begun(*LOG)

    assert figures.unrecorded_s(copying.World(*LOG).copy) is None
    assert figures.unrecorded_s(world.copy) == math.inf
    world.offer(*LOG[:2])
    world.send()
    world.acknowledge()
    assert figures.unrecorded_s(world.copy) == world.now_s
