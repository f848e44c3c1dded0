package starter_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/base/text"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

var (
	costRow = regexp.MustCompile(`(?m)^\| (automatic|.--batch-items (\d+).)[^|]*\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| \$([\d.]+) \|$`)
	price   = regexp.MustCompile(`at (\d+) \$ a million`)
)

// The table of what a million items cost is what 'stint plan' says of them.
func TestPlan_CostTable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("in.txt", numbers(1_000_000))
	page := document(t, "docs/cost.md")
	dollars, err := strconv.ParseFloat(price.FindStringSubmatch(page)[1], 64)
	require.NoError(t, err)
	rows := costRow.FindAllStringSubmatch(page, -1)
	require.Len(t, rows, 5)
	for _, row := range rows {
		args := []string{"plan", "--json", "in.txt"}
		if row[2] != "" {
			args = append(args, "--batch-items", row[2])
		}
		var plan struct{ Items, Batches, Events, Actions int64 }
		require.NoError(t, json.Unmarshal([]byte(b.stint(args...).exits(starter.ExitOK).stdout.String()), &plan))
		require.EqualValues(t, 1_000_000, plan.Items)
		want := []string{
			text.Thousands(plan.Batches), text.Thousands(plan.Events), text.Thousands(plan.Actions), fmt.Sprintf("%.4f", float64(plan.Actions)*dollars/1e6),
		}
		require.Equal(t, want, row[3:], strings.Join(args, " "))
	}
}
