from __future__ import annotations

import pytest

from connect_runtime.base import errors
from mm2.pipeline import channel_address

PIN = bytes(range(32))


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (channel_address.UnixAddress(path="/tmp/a b/c.sock"), "unix:/tmp/a b/c.sock"),
        (
            channel_address.TlsAddress(host="node-1", port=9443, fingerprint=PIN),
            f"tls://node-1:9443#sha256={PIN.hex()}",
        ),
        (
            channel_address.TlsAddress(host="fd00::1", port=9443, fingerprint=PIN),
            f"tls://[fd00::1]:9443#sha256={PIN.hex()}",
        ),
    ],
)
def test_an_address_is_one_line_of_text(address, text):
    assert str(address) == text
    assert channel_address.parse(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tcp://h:1",
        "tls://h:1",
        f"tls://h#sha256={PIN.hex()}",
        f"tls://:1#sha256={PIN.hex()}",
        f"tls://h:x#sha256={PIN.hex()}",
        "tls://h:1#sha256=00ff",
        "tls://h:1#sha256=zz",
    ],
)
def test_another_text_is_refused(text):
    with pytest.raises(errors.FatalError, match="is no address of a control channel"):
        channel_address.parse(text)
