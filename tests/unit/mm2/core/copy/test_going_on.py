from __future__ import annotations

import pytest

from mm2.core.copy import going_on, outcomes, pairing
from mm2.formats import map_record
from tests.fakes import scripts, taking


def paired():
    found = pairing.Pairing(tail=[], position=120, start=40, source_epoch=9, matched=4)
    found.runs.append(map_record.Run(100, -60))
    found.seams.append(pairing.Seam(1, 110, 50, 8))
    return found


def test_what_pairing_found_is_what_is_taken():
    attempt = taking.attempt(taking.known())
    taken = going_on.taken(attempt, era=3, start=100, pairs=paired(), target=44)
    assert taken == outcomes.Taken(
        producer=taking.US,
        leader_epoch=2,
        era=3,
        ordinal=1,
        take_start=100,
        source=120,
        target=44,
        source_epoch=9,
        runs=(map_record.Run(100, -60),),
        seams=(pairing.Seam(1, 110, 50, 8),),
        spared=4,
    )


@pytest.mark.parametrize("new", [True, False])
def test_the_copy_goes_on_behind_our_marker_once_our_id_is_recorded(new):
    attempt = taking.attempt(taking.known(producers={}) if new else taking.known())
    script = going_on.go_on(attempt, era=3, start=100, pairs=paired())
    played = scripts.play(script, taking.answers())
    assert played.outcome.target == 51
    assert taking.kinds(played) == (["ProducerKey"] if new else [])


def test_an_id_that_cannot_be_recorded_ends_the_attempt():
    attempt = taking.attempt(taking.known(producers={}))
    script = going_on.go_on(attempt, era=3, start=100, pairs=paired())
    played = scripts.play(script, taking.answers(Record=scripts.LOST))
    assert isinstance(played.outcome, outcomes.BeginAgain)
