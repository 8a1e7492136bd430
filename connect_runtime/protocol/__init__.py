"""The Kafka wire protocol and client security settings, without I/O.

Everything here is pure: requests become bytes, bytes become responses, and the state machines
(cluster metadata, coordinator lookups, fetch sessions, SASL exchanges, OAuth tokens) are driven by
whoever owns the sockets. Fetch and Produce are encoded and decoded by hand without copying record
batches; every other API goes through kio's entities.

Main types: `RequestBuilder` (one request in every version that brokers speak), `RequestTarget`
(the broker a request is for), `SecuritySettings` (TLS and SASL as a client's properties say) and
`ClusterMetadata` (brokers, topics and leaders).

May import `connect_runtime.base` only.
"""
