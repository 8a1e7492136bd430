"""The ways in which a file's flows reach its clusters: who comes as whom is asked once."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from dataclasses import dataclass, replace

from connect_runtime.kafka_client import access as kafka_access
from mm2.core import flows
from mm2.core.preflight import rights


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """`clients` come in like this: "consumer of east->west", …; none: all do."""

    alias: str
    access: kafka_access.Access
    clients: tuple[str, ...]

    def is_like(self, other: Login) -> bool:
        """Do both come the same way, as the same user?"""
        mine, theirs = self.access, other.access
        return (self.alias, mine.bootstrap, mine.security) == (
            other.alias,
            theirs.bootstrap,
            theirs.security,
        )


Accesses = Mapping[rights.Client, kafka_access.Access]


def of(accesses_of: Mapping[str, tuple[flows.Flow, Accesses]]) -> list[Login]:
    """In order of the flows, by name; equal ones are one."""
    found: list[Login] = []
    for flow, accesses in accesses_of.values():
        for client, access in accesses.items():
            alias = flow.source if client.on_source else flow.target
            new = Login(alias=alias, access=access, clients=(f"{client.value} of {flow.name}",))
            place = next((i for i, each in enumerate(found) if each.is_like(new)), None)
            if place is None:
                found.append(new)
            else:
                known = found[place]
                found[place] = replace(known, clients=known.clients + new.clients)
    ways = collections.Counter(each.alias for each in found)
    return [each if ways[each.alias] > 1 else replace(each, clients=()) for each in found]
