"""Kafka Connect's REST API, with the paths, JSON documents and status codes of Java's.

`RestServer` owns the sockets and one thread with an event loop. `rest_app` combines the
resources (`ConnectorsResource`, `ConnectorPluginsResource`, `RootResource`, `LoggingResource`,
`InternalConnectResource`) with the middleware around them: access log, CORS, host check, basic
authentication, response headers. Resources submit requests to the herder through
`HerderClient`, which forwards a request to the leader or the owner where this worker cannot
serve it. `RestClient` is the HTTP client for that.

May import `connect_runtime.api`, `base`, `system`, `protocol`, `network`, `storage`, `plugins`,
`config` and `herder`. Here alone starlette and uvicorn are imported.
"""
