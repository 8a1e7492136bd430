"""Errors of the sandbox; each message says what to do about it."""

from __future__ import annotations

from connect_runtime.base.errors import FatalError


class SandboxError(FatalError):
    """The sandbox cannot do what was asked."""


class PortInUseError(SandboxError):
    """A broker found its port taken between our check and its start."""


class UnknownClusterError(SandboxError):
    """The command names no cluster, or one that the sandbox does not have."""
