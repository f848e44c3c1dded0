package gateway

import (
	_ "embed"
	"net/http"
)

// document describes the gateway, by the OpenAPI specification.
//
//go:embed openapi.json
var document []byte

func describe(a *answer, _ *http.Request) { a.send(http.StatusOK, document) }
