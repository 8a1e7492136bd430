"""The judge of ordered logs: what was acknowledged against what is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def verdicts(held: Sequence[bytes], recorded: Mapping[str, Sequence[bytes]]) -> list[str]:
    """What is wrong with a log, in words; empty when every writer's records are there in order.

    `held`: keys in log order. `recorded`: by writer, the keys acknowledged to it in order of
    writing; each begins with the writer's name.
    """
    found: list[str] = []
    for writer, keys in sorted(recorded.items()):
        own = [key for key in held if key.startswith(writer.encode())]
        times = Counter(own)
        lost = [key for key in keys if not times[key]]
        twice = [key for key, count in times.items() if count > 1]
        alien = sorted(times.keys() - set(keys))
        for what, which in (("lost", lost), ("twice", twice), ("never acknowledged", alien)):
            if which:
                found.append(f"{writer}: {len(which)} {what}, first {which[0]!r}")
        known = set(keys)
        if [key for key in dict.fromkeys(own) if key in known] != [k for k in keys if times[k]]:
            found.append(f"{writer}: out of order")
    return found
