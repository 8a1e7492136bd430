"""Where a worker listens for its copies, as one line of text that fits into a task's arguments.

`unix:/tmp/mm2-x1/control.sock` on one host: whoever may open the 0700 directory is us.
`tls://host:9443#sha256=<64 hex digits>` across hosts: the fingerprint is the SHA-256 of the
certificate that the worker made for this run (DER), so that no authority has to be asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from connect_runtime.base import errors

_UNIX = "unix:"
_TLS = "tls://"
_PIN = "#sha256="


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixAddress:
    """A stream socket in the file system of this host."""

    path: str

    def __str__(self) -> str:
        return f"{_UNIX}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsAddress:
    """A TCP port that answers TLS with the one certificate of that `fingerprint`."""

    host: str
    port: int
    fingerprint: bytes

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{_TLS}{host}:{self.port}{_PIN}{self.fingerprint.hex()}"


ChannelAddress = UnixAddress | TlsAddress


def parse(text: str) -> ChannelAddress:
    """The reverse of `str`. Raises FatalError with the text when it is neither form."""
    if text.startswith(_UNIX):
        return UnixAddress(path=text.removeprefix(_UNIX))
    authority, pin, fingerprint = text.removeprefix(_TLS).partition(_PIN)
    host, colon, port = authority.rpartition(":")
    if text.startswith(_TLS) and pin and colon and host and port.isdecimal():
        try:
            digest = bytes.fromhex(fingerprint)
        except ValueError:
            digest = b""
        if len(digest) == 32:
            return TlsAddress(host=host.strip("[]"), port=int(port), fingerprint=digest)
    raise errors.FatalError(
        f"{text!r} is no address of a control channel; allowed are "
        f"{_UNIX}PATH and {_TLS}HOST:PORT{_PIN}64 hex digits"
    )
