"""A configuration definition inside another: the keys of a transform under its alias."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.api import config_def, config_docs, config_validators


def embed(
    into: config_def.ConfigDef,
    child: config_def.ConfigDef,
    *,
    key_prefix: str,
    group: str,
    first_order: int = 0,
) -> None:
    """Define the child's keys as `<key_prefix><name>`, in the order of its documentation.

    Validators and recommenders go on seeing the child's own names.
    """
    for order, key in enumerate(config_docs.in_order(child), start=first_order):
        into.add(
            dataclasses.replace(
                key,
                name=key_prefix + key.name,
                group=group if key.group is None else f"{group}: {key.group}",
                order_in_group=order,
                validator=_validator(key_prefix, key.validator),
                dependents=[key_prefix + each for each in key.dependents],
                recommender=None if key.recommender is None else _Embedded(key_prefix, key),
            )
        )


def _validator(
    prefix: str, validator: config_validators.Validator | None
) -> config_validators.Validator | None:
    if validator is None:
        return None

    def check(name: str, value: Any) -> None:
        validator.ensure_valid(name.removeprefix(prefix), value)

    return config_validators.Lambda(check, str(validator))


class _Embedded:
    """A recommender that is asked about prefixed names and asks about plain ones."""

    def __init__(self, prefix: str, key: config_def.ConfigKey) -> None:
        assert key.recommender is not None, key.name
        self._prefix = prefix
        self._recommender = key.recommender

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        inner = config_def.with_prefix(parsed, self._prefix)
        return self._recommender.valid_values(name.removeprefix(self._prefix), inner)

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        inner = config_def.with_prefix(parsed, self._prefix)
        return self._recommender.visible(name.removeprefix(self._prefix), inner)
