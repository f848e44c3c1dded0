// Package remote makes HTTP requests of items, and says what their answers mean: a result, an error of the item, a
// wait, or that no item can succeed. It knows neither calls nor slots; worker brings it to them.
//
//	endpoint.go   what an endpoint is made of
//	request.go    the request of one or several items; the estimate of its tokens
//	do.go         sends it, and reads the answer within its limits
//	fault.go      what becomes of items without a result
//	classify.go   what a status and an error body mean; says.go: what providers write there
//	waits.go      how long a server asks to wait
//	result.go     the result in an answer; path.go: a path to it; schema.go: whether it fits a schema
//	body.go       templates of bodies in JSON; url.go: of URLs; header.go: of headers
//	transport.go  connections, redirects; address.go: which addresses may be called
//	secrets.go    keeps keys out of messages
//	model.go      requests to models, and their answers; openai.go, anthropic.go, gemini.go
//
// # Templates
//
// Placeholders are those of package command. In a body, which is JSON, a placeholder inside quotes is replaced by the
// value as the content of a string, and one outside by the value in JSON. A brace that is no placeholder's stays
// outside quotes, and is written twice inside; {} is the item, { } an empty object. In a URL values are
// percent-encoded, in the path and in the query. Scheme, host and port have no placeholders, and a value in the path
// has no slash, and is neither empty nor dots. In a header $NAME is replaced by a variable of the worker's environment,
// $$ by a dollar.
//
// # Libraries
//
// gojq evaluates result paths: the syntax that people know from jq, in pure Go, without access to files or the
// environment. jsonschema checks results: all drafts, in pure Go; it is linked already by way of compose-go.
package remote
