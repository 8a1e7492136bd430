"""Kafka Connect's REST API, with the same paths, JSON documents and status codes as Java's.

`RestServer` owns the sockets and a thread with an event loop. `rest_app` combines the resources
(`ConnectorsResource`, `ConnectorPluginsResource`, `RootResource`, `LoggingResource`,
`InternalConnectResource`) with their middleware: access log, CORS, host check, basic
authentication, response headers. Resources submit requests to the herder through `HerderClient`,
which forwards a request to the leader or the owner if this worker cannot serve it. `RestClient` is
the HTTP client for forwarded requests.

Allowed imports: `connect_runtime.api`, `base`, `system`, `protocol`, `network`, `storage`,
`plugins`, `config` and `herder`. No other package imports starlette or uvicorn.
"""
