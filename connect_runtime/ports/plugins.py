"""Port: the plugins that are installed here, by the names that configurations have for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from connect_runtime.builtin import aliases

Kind = aliases.Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """`class_name` is what users write: Java's where there is one. `version` None: it has none."""

    kind: Kind
    class_name: str
    version: str | None


class Plugins(Protocol):
    """Any thread may ask."""

    def find(self, name: str, *kinds: Kind) -> type[Any]:
        """The class that a name means among these kinds: full name, simple name or alias.

        Raises `ConfigError`: there is none, or the short name means several.
        """

    def installed(self) -> Sequence[Installed]:
        """All, sorted by kind and name."""
