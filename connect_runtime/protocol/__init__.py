"""Kafka wire protocol and client security settings, without I/O.

All code is pure: it encodes requests to bytes and decodes responses from bytes. The code that owns
the sockets drives the state machines (cluster metadata, coordinator lookups, fetch sessions, SASL
exchanges, OAuth tokens). Fetch and Produce have hand-written codecs that do not copy record
batches. Every other API uses the entities of the kio library (Python classes of Kafka messages).

Main types: `RequestBuilder` (a request in every version that brokers support), `RequestTarget` (the
broker that a request is sent to), `SecuritySettings` (TLS and SASL from client properties) and
`ClusterMetadata` (brokers, topics and leaders).

Allowed import: `connect_runtime.base` only.
"""
