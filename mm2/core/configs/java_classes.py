"""What class names mean in configurations that were written for Java.

Python has none of those classes, yet validation must know their names from wrong ones, and show
them as Java does. So each becomes a type that is nothing but its name; `policies` and whoever makes
clients say what stands for it here. Any other name is a Python class.
"""

from __future__ import annotations

import functools
import re

from connect_runtime.api import config_types

VERSION = "4.3.1"
"""Of the connectors that ours stand in for: what they report as their own."""
MIRROR = "org.apache.kafka.connect.mirror."
DEFAULT_POLICY = f"{MIRROR}DefaultReplicationPolicy"
IDENTITY_POLICY = f"{MIRROR}IdentityReplicationPolicy"
TOPIC_FILTER = f"{MIRROR}DefaultTopicFilter"
GROUP_FILTER = f"{MIRROR}DefaultGroupFilter"
PROPERTY_FILTER = f"{MIRROR}DefaultConfigPropertyFilter"
FORWARDING_ADMIN = "org.apache.kafka.clients.admin.ForwardingAdmin"
JMX_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"

_APACHE = "org.apache.kafka."
_WORD = re.compile(r"\w+")
_OF_MIRROR = {
    each.removeprefix(MIRROR)
    for each in (DEFAULT_POLICY, IDENTITY_POLICY, TOPIC_FILTER, GROUP_FILTER, PROPERTY_FILTER)
}


class JavaClass:
    """Base of the types that only stand for a class of Apache Kafka; never made an instance of."""


def load(name: str) -> type:
    """The type for a value of CLASS type; LookupError if there is none.

    Of Kafka's own only the mirror's are told from misspelt ones: the others are the clients'.
    """
    if name.startswith(MIRROR):
        if name.removeprefix(MIRROR) not in _OF_MIRROR:
            raise LookupError(name)
        return named(name)
    if name.startswith(_APACHE):
        return named(name)
    try:
        return config_types.load_class(name)
    except LookupError as error:
        raise LookupError(f"{error}: {error.__cause__ or 'it is no class'}") from error
    except Exception as error:  # importing runs the user's code
        told = f"{type(error).__name__}: {error}"
        raise LookupError(f"{name} cannot be imported: {told}") from error


def is_python(name: str) -> bool:
    """Could this be the name of a class of the user's?"""
    words = name.replace(":", ".", 1).split(".")
    is_dotted = len(words) > 1 and all(_WORD.fullmatch(each) for each in words)
    return is_dotted and not name.startswith(_APACHE)


@functools.cache
def named(name: str) -> type[JavaClass]:
    """The type that stands for a class of Java; the same one each time."""
    package, _, simple = name.rpartition(".")
    return type(simple, (JavaClass,), {"__module__": package, "__qualname__": simple})


def java_name(of: type) -> str | None:
    """The name in Java; None for a class of Python."""
    return config_types.class_name(of) if issubclass(of, JavaClass) else None
