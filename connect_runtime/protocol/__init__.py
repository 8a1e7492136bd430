"""The Kafka wire protocol and client security settings, without I/O.

All code is pure: it turns requests into bytes and bytes into responses. The state machines (cluster
metadata, coordinator lookups, fetch sessions, SASL exchanges, OAuth tokens) are driven by the code
that owns the sockets. Fetch and Produce are encoded and decoded by hand, without copying record
batches; every other API uses kio's entities.

Main types: `RequestBuilder` (a request in every version that brokers support), `RequestTarget`
(the broker that a request is sent to), `SecuritySettings` (TLS and SASL from client properties)
and `ClusterMetadata` (brokers, topics and leaders).

May import `connect_runtime.base` only.
"""
