"""A mirror of a few lines that makes a mistake: the benchmark's judge must see it."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.contestants import Flow
from tests.support import kafka
from tests.support.kafka import Outgoing

_ROOT = Path(__file__).parents[2]
_BEGIN = (
    f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from tests.bench import faulty_mirror; "
    "faulty_mirror.main(sys.argv[1:])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyMirror:
    """As a contestant. `mistake`: none, loses, doubles or makes-up."""

    mistake: str
    key: str = "mm2"
    title: str = "a faulty mirror"
    settings: tuple[str, ...] = ()

    def command(self, flow: Flow, folder: Path) -> list[str]:
        (topic,) = flow.topics
        given = {
            "source": dict(flow.source_properties),
            "target": dict(flow.target_properties),
            "topic": topic,
            "mirror": flow.mirrored(topic),
        }
        path = folder / "faulty.json"
        path.write_text(json.dumps(given))
        return [sys.executable, "-c", _BEGIN, self.mistake, str(path)]


def mirror(mistake: str, *, source: Any, target: Any, topic: str, mirror: str) -> None:
    """Once all that is there now and was not mirrored."""
    there = kafka.read_topic(source, topic)
    if mirror not in kafka.topics(target):
        kafka.create_topic(target, mirror, partitions=len(there))
    done = {number: len(records) for number, records in kafka.read_topic(target, mirror).items()}
    outgoing = [
        Outgoing(value=each.value, partition=number)
        for number, records in there.items()
        for each in records[done[number] :]
    ]
    match mistake:
        case "loses":
            outgoing.pop()
        case "doubles":
            outgoing.append(outgoing[-1])
        case "makes-up":
            outgoing.append(Outgoing(value=b"mine", partition=0))
    kafka.produce(target, mirror, outgoing)


def main(arguments: list[str]) -> None:
    """Mirror, and stay until ended."""
    mistake, settings = arguments
    mirror(mistake, **json.loads(Path(settings).read_text()))
    threading.Event().wait()
