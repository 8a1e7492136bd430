"""What a validated configuration means to who wants to write it: Java's maybeAddConfigErrors."""

from __future__ import annotations

from connect_runtime.api import config_infos


def refusal(infos: config_infos.ConfigInfos) -> str | None:
    """Why the configuration must not be written, error by error; None: it may be.

    Answered with 400. Clients show it as it is, so the text is Java's.
    """
    messages = infos.error_messages
    if not messages:
        return None
    return "\n".join(
        (
            "Connector configuration is invalid and contains the following"
            f" {len(messages)} error(s):",
            *messages,
            "You can also find the above list of errors at the endpoint"
            " `/connector-plugins/{connectorType}/config/validate`",
        )
    )
