"""What is said of a flow, in words that commands and log lines share."""

from __future__ import annotations

from connect_runtime.base import amounts
from mm2.app import figures
from mm2.core import commands, time_to_loss

_HOW = {
    time_to_loss.By.TIME: "{left} at the earliest (retention.ms)",
    time_to_loss.By.SIZE: "about {left}, as fast as records come (retention.bytes)",
    time_to_loss.By.START: "about {left}, as fast as its log's start moves",
}


def time_left(outlook: time_to_loss.Outlook | None) -> str:
    """For columns: `3.4 h`, `gone`, `-` where nothing is known to run out."""
    if outlook is None or outlook.kind not in (
        time_to_loss.Kind.GONE,
        time_to_loss.Kind.RUNS_OUT,
    ):
        return figures.UNKNOWN
    if outlook.kind is time_to_loss.Kind.GONE:
        return "gone"
    assert outlook.left_ms is not None
    return figures.duration(outlook.left_ms / 1000)


def loss(outlook: time_to_loss.Outlook) -> str:
    """What the source does to what is not copied yet; "" where it does nothing to it."""
    match outlook.kind:
        case time_to_loss.Kind.GONE:
            offsets = amounts.counted(outlook.gone, "offset")
            return f"the source deleted {offsets} before they were copied"
        case time_to_loss.Kind.RUNS_OUT:
            assert outlook.by is not None
            how = _HOW[outlook.by].format(left=time_left(outlook))
            return f"the source deletes what is not copied yet in {how}"
        case _:
            return ""


def way_on(
    topic: str,
    outlook: time_to_loss.Outlook,
    *,
    retention: time_to_loss.Retention | None,
    source: commands.Cluster,
) -> str:
    """The command that lets the source keep it twice as long; "" where that is no matter of its
    settings, or too late."""
    if retention is None or outlook.kind is not time_to_loss.Kind.RUNS_OUT:
        return ""
    kept = {
        time_to_loss.By.TIME: (time_to_loss.KEEPS_MS, retention.keeps_ms),
        time_to_loss.By.SIZE: (time_to_loss.KEEPS_BYTES, retention.keeps_bytes),
    }
    key, value = kept.get(outlook.by, ("", None)) if outlook.by is not None else ("", None)
    return source.set_topic(topic, {key: str(2 * value)}) if value else ""
