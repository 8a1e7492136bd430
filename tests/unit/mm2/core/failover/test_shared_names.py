"""Where a group goes on in a topic that both clusters write, against a model that knows each
record."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.core.failover import shared_names, whose
from mm2.core.offsets import translation

Exact, Earlier, Untranslated = translation.Exact, translation.Earlier, translation.Untranslated


def local(through, end, *stretches):
    made = [whose.Stretch(at, at, 1, 0, 0) for at in stretches]
    return shared_names.Local(through=through, end=end, stretches=made)


def place(forward, back, known, *, read_all=False, past_all=False):
    return shared_names.place(
        forward, back, known, read_all_copied=read_all, past_all_back=past_all
    )


def test_the_earlier_of_both_counts_and_the_rest_may_be_read_again():
    assert place(Exact(downstream=50), Exact(downstream=40), local(90, 100)) == Earlier(
        downstream=40, again_max=10
    )
    assert place(Exact(downstream=40), Exact(downstream=50), local(90, 100)) == Earlier(
        downstream=40, again_max=10
    )
    assert place(Exact(downstream=40), Exact(downstream=40), local(90, 100)) == Exact(downstream=40)


def test_who_has_read_all_goes_on_at_what_never_left():
    found = place(
        Exact(downstream=60),
        Exact(downstream=0),
        local(70, 100, 80, 81),
        read_all=True,
        past_all=True,
    )
    assert found == Exact(downstream=80)
    nothing_left = place(
        Exact(downstream=60), Exact(downstream=0), local(70, 100), read_all=True, past_all=True
    )
    assert nothing_left == Exact(downstream=100)


def test_copies_behind_what_never_left_are_read_again():
    found = place(
        Exact(downstream=95),
        Exact(downstream=0),
        local(70, 100, 70, 71),
        read_all=True,
        past_all=True,
    )
    assert found == Earlier(downstream=70, again_max=23)


def test_what_nobody_counted_is_taken_for_unread():
    unknown = shared_names.Local(through=70, end=70, stretches=None)
    found = place(Exact(downstream=95), Exact(downstream=0), unknown, read_all=True, past_all=True)
    assert found == Earlier(downstream=70, again_max=25)


def test_copies_behind_the_place_by_the_map_count_on_top():
    """Their places are among records of both clusters."""
    forward = Earlier(downstream=50, again_max=5)
    assert place(forward, Exact(downstream=60), local(90, 100)) == Earlier(
        downstream=50, again_max=15
    )


def test_without_a_place_on_either_way_there_is_none():
    assert place(Untranslated.UNKNOWN, Exact(downstream=1), local(1, 2)) is Untranslated.UNKNOWN
    assert place(Exact(downstream=1), Untranslated.TOO_OLD, local(1, 2)) is Untranslated.TOO_OLD


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(["here", "there", "copy-here", "copy-there"]), max_size=40),
    st.data(),
)
def test_nothing_unread_stands_before_it(events, data):
    """Two logs of one name: records are born on either and copied to the other, in order."""
    here, there = _logs(events)
    committed = data.draw(st.integers(0, len(here)))
    read = set(here[:committed])
    forward, copied_to = _forward(here, there, committed)
    back, through, behind = _back(here, there, committed)
    stretches = [
        whose.Stretch(at, at, 1, 0, 0)
        for at, name in enumerate(there)
        if at >= through and name.startswith("there")
    ]
    found = shared_names.place(
        forward,
        back,
        shared_names.Local(through=through, end=len(there), stretches=stretches),
        read_all_copied=committed >= copied_to,
        past_all_back=committed >= behind,
    )
    assert not isinstance(found, Untranslated)
    assert set(there[: found.downstream]) <= read
    again = sum(name in read for name in there[found.downstream :])
    assert again <= (found.again_max if isinstance(found, Earlier) else 0)


def _logs(events):
    here: list[str] = []
    there: list[str] = []
    for number, event in enumerate(events):
        if event in {"here", "there"}:
            (here if event == "here" else there).append(f"{event} {number}")
            continue
        source, target = (there, here) if event == "copy-here" else (here, there)
        home = "there" if event == "copy-here" else "here"
        waiting = [name for name in source if name.startswith(home) and name not in target]
        target += waiting[:1]
    return here, there


def _forward(here, there, committed):
    """Exact for each offset: at the first copy of what was born here and is not read."""
    copies = [at for at, name in enumerate(there) if name.startswith("here")]
    born = [at for at, name in enumerate(here) if name.startswith("here") and name in there]
    copied_to = born[-1] + 1 if born else 0
    target_next = copies[-1] + 1 if copies else 0
    unread = [there.index(here[at]) for at in born if at >= committed]
    return Exact(downstream=min(unread, default=target_next)), copied_to


def _back(here, there, committed):
    born = [at for at, name in enumerate(there) if name.startswith("there") and name in here]
    through = born[-1] + 1 if born else 0
    copies = [at for at, name in enumerate(here) if name.startswith("there")]
    behind = copies[-1] + 1 if copies else 0
    unread = [there.index(here[at]) for at in copies if at >= committed]
    return Exact(downstream=min(unread, default=through)), through, behind
