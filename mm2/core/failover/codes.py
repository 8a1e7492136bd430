"""Codes of findings that steps mind, too: where the operator accepts one, they leave alone what it
is about. Those that are of a group may be accepted of one."""

from __future__ import annotations

MIRROR_UNKNOWN = "mirror-unknown"
LAG_UNKNOWN = "lag-unknown"

GROUP_STILL_HERE = "group-still-here"
GROUP_UNREAD = "group-unread"
GROUP_ACTIVE = "group-active"
GROUP_UNKNOWN = "group-unknown"
GROUP_DENIED = "group-denied"
