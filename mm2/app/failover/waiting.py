"""What a planned move waits for before the flow is stopped: nobody reads any more, and nobody
writes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from mm2.app.failover import tools
from mm2.app.looks import mirrors
from mm2.core.failover import agreement, codes, orders
from mm2.core.offsets import group_sync


def idle(about: tools.Tools, wanted: orders.Wanted, names: Sequence[str]) -> list[str]:
    """Waits until none of these groups has members on the cluster that is left; those that had
    none at last. Others are left to read on, as that is accepted. Raises `ConnectError`."""
    groups, timeout_s = about.both.source.groups, about.planner.timeout_s
    found: list[str] = []
    busy: list[str] = []

    def is_idle() -> bool:
        states = groups.states(names, timeout_s)
        for name, failure in sorted(states.failed.items()):
            known = (codes.GROUP_UNREAD, codes.GROUP_REFUSED)
            if not any(wanted.accepts(code, name) for code in known):
                raise failure
        active = [
            name for name, state in states.done.items() if state is group_sync.GroupState.ACTIVE
        ]
        found[:] = sorted(states.done.keys() - set(active))
        busy[:] = [name for name in active if not wanted.accepts(codes.GROUP_STILL_HERE, name)]
        return not busy

    def why() -> str:
        return (
            f"groups have members still: {', '.join(busy)}. Stop them; or leave one to read on: "
            f"--accept {codes.GROUP_STILL_HERE}:{busy[0]}"
        )

    about.await_(is_idle, why)
    return found


def agree(about: tools.Tools, wanted: orders.Wanted) -> agreement.Agreement:
    """Waits until both ends hold the same, for long enough. Raises `ConnectError`."""
    both, timeout_s = about.both, about.planner.timeout_s
    seen_before = agreement.Agreement(
        settle_s=about.settle_s, leaves_unheard=wanted.accepts(codes.LAG_UNKNOWN)
    )
    with contextlib.closing(both.target.map_reader(both.flow.source)) as reader:

        def agrees() -> bool:
            known = reader.read(timeout_s)
            found = mirrors.look(both, clock=about.clock, timeout_s=timeout_s, known=known)
            return seen_before.look(found.mirrored, about.clock.now_s())

        def why() -> str:
            said = f"both ends do not agree: {seen_before.why}"
            if seen_before.moved and not both.flow.policy.renames_topics:
                said += f". What is written on {wanted.destination} comes here, too: stop that"
            return said

        about.await_(agrees, why)
    return seen_before
