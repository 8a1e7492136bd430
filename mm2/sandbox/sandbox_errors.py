"""Errors of the sandbox; each message says how to resolve it."""

from __future__ import annotations

from connect_runtime.base.errors import FatalError


class SandboxError(FatalError):
    """The sandbox cannot do what was requested."""


class PortInUseError(SandboxError):
    """Another process took a broker's port between our check and the broker's start."""


class UnknownClusterError(SandboxError):
    """The command names no cluster, or one that the sandbox does not have."""
