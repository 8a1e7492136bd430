"""Non-blocking connections to Kafka clusters: sockets, TLS, DNS, request routing and metadata
refresh.

One thread owns a `Poller` and everything registered with it; nothing here blocks, except the host
name lookups, which run on threads of their own. `ClusterConnections` is the entry point: it routes
each request to its broker over `BrokerConnections`, keeps the metadata fresh and reports every
request's end exactly once. `ConnectionSettings` says how to connect, and travels to executors.

May import `connect_runtime.base`, `.system` and `.protocol`. No threads besides those of the
resolver, and no librdkafka.
"""
