package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/stint-run/stint/internal/meters"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// requestMeters counts requests and items.
type requestMeters struct {
	requests metric.Int64Counter
	inFlight metric.Int64UpDownCounter
	items    metric.Int64Counter
	results  metric.Int64Counter
}

// newMeters returns meters, and the handler that serves them to Prometheus.
func newMeters(log *slog.Logger) (*requestMeters, http.Handler, error) {
	provider, handler, err := meters.NewPrometheus(log)
	if err != nil {
		return nil, nil, err
	}
	meter := provider.Meter("stint/gateway")
	m := &requestMeters{}
	var errs [4]error
	m.requests, errs[0] = meter.Int64Counter("stint_gateway_requests", metric.WithDescription("Requests answered, by route and status."))
	m.inFlight, errs[1] = meter.Int64UpDownCounter("stint_gateway_requests_in_flight", metric.WithDescription("Requests under way."))
	m.items, errs[2] = meter.Int64Counter("stint_gateway_items_put", metric.WithDescription("Items put that were accepted, and items called."))
	m.results, errs[3] = meter.Int64Counter("stint_gateway_results", metric.WithDescription("Outcomes of items that clients were given."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, nil, err
	}
	m.put(0)
	m.given(0)
	return m, handler, nil
}

func routeLabel(route string) attribute.KeyValue { return attribute.String("route", route) }

func (m *requestMeters) begin(route string) {
	m.inFlight.Add(context.Background(), 1, metric.WithAttributes(routeLabel(route)))
}

func (m *requestMeters) end(route string, status int) {
	m.inFlight.Add(context.Background(), -1, metric.WithAttributes(routeLabel(route)))
	m.requests.Add(context.Background(), 1, metric.WithAttributes(routeLabel(route), attribute.String("status", strconv.Itoa(status))))
}

func (m *requestMeters) put(items int64)     { m.items.Add(context.Background(), items) }
func (m *requestMeters) given(results int64) { m.results.Add(context.Background(), results) }
