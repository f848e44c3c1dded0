package stages

import (
	"testing"

	"github.com/stint-run/stint/internal/data/records"
	"github.com/stint-run/stint/internal/wire"
	"github.com/stretchr/testify/require"
)

// P3: an item that matches no case goes to the default, also because it has no such field.
func TestD35_ItemWithoutTheField(t *testing.T) {
	t.Parallel()
	v := &viewReader{}
	for _, item := range []string{`{"kind":"y"}`, `{}`, `{"kind":["x"]}`, `[]`, `"text"`} {
		view := &wire.View{Stage: "way", Route: &wire.Route{Field: ".kind", Cases: []string{"x"}, Else: true}}
		index, _ := v.route(view, records.Outcome{Value: []byte(item)})
		require.Equal(t, 1, index, item)
		view.Route.Else = false
		index, lost := v.route(view, records.Outcome{Value: []byte(item)})
		require.Negative(t, index, item)
		require.Equal(t, "Route", lost.Failure.Error.Type, item)
	}
}
