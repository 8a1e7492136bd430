"""Codes of findings: an operator accepts by them what forbids. Those with a name here steps mind,
too, and leave alone what an accepted one is about. Those that are of a group may be accepted of
one."""

from __future__ import annotations

from collections.abc import Iterable

MIRROR_UNKNOWN = "mirror-unknown"
LAG_UNKNOWN = "lag-unknown"

GROUP_STILL_HERE = "group-still-here"
GROUP_UNREAD = "group-unread"
GROUP_ACTIVE = "group-active"
GROUP_UNKNOWN = "group-unknown"
GROUP_DENIED = "group-denied"
GROUP_REFUSED = "group-refused"

SHARE_GROUP = "share-group"
STREAMS_GROUP = "streams-group"

ALL = frozenset(
    {
        MIRROR_UNKNOWN,
        LAG_UNKNOWN,
        GROUP_STILL_HERE,
        GROUP_UNREAD,
        GROUP_ACTIVE,
        GROUP_UNKNOWN,
        GROUP_DENIED,
        GROUP_REFUSED,
        SHARE_GROUP,
        STREAMS_GROUP,
        "again",
        "as-of-checkpoint",
        "ends-moved",
        "gone",
        "group-foreign",
        "group-gone",
        "groups-unlisted",
        "half-lost",
        "is-ahead",
        "lag",
        "left-out",
        "losses",
        "may-not-stop",
        "mirror-missing",
        "no-connectors",
        "no-export",
        "no-groups",
        "no-hook",
        "no-journal",
        "no-place",
        "no-position",
        "no-such-group",
        "not-looked-at",
        "not-mirrored",
        "nothing-mirrored",
        "one-cluster",
        "open-transactions",
        "origin-truncated",
        "origin-unreachable",
        "other-move",
        "set-back",
        "shared-names",
        "stands-before",
        "stopped",
        "streams-state",
        "syncs-unread",
        "too-old",
        "unfenced",
        "unfinished-move",
        "unmirrored",
        "unreplicated",
        "untranslated",
        "way-back-unknown",
    }
)


def mistaken(accepted: Iterable[str]) -> list[str]:
    """Of what an operator accepts, as `CODE` or `CODE:GROUP`, that no finding ever has."""
    return sorted({each for each in accepted if each.partition(":")[0] not in ALL})
