"""HTTP: server, middleware, authentication, problem documents, the OpenAPI document."""
