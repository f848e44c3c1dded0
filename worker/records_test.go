package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

// sale is a record of CSV with columns of several types.
type sale struct {
	ID     int        `json:"id"`
	Amount float64    `json:"amount"`
	Paid   bool       `json:"paid"`
	At     time.Time  `json:"at"`
	Until  *time.Time `json:"until"`
	Note   string     `json:"note"`
}

func describeSale(_ context.Context, s sale) (string, error) {
	return fmt.Sprint(s.ID+1, " ", s.Amount*2, " ", s.Paid, " ", s.At.Format(time.DateOnly), " ", s.Until == nil, " ", s.Note), nil
}

// 14.13: the texts of CSV become what the fields of a struct want; what cannot is that item's error.
func TestRecords_Typed(t *testing.T) {
	t.Parallel()
	const input = "ID,amount,paid,at,until,note\n" +
		"1,2.5,true,2026-11-25,,5\n" +
		"x,1,true,2026-11-25,,a\n" +
		",,,,2026-11-25T01:02:03Z,\n" +
		"4,1,maybe,2026-11-25,,b\n"
	for _, name := range []string{"each", "encoding/json", "batch", "preprocess", "processes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			each := Each(describeSale)
			h := map[string]Handler{
				"each": each, "encoding/json": Codec(EncodingJSON, each),
				"batch": Batch(func(ctx context.Context, all []sale) (texts []string, err error) {
					for _, s := range all {
						text, _ := describeSale(ctx, s)
						texts = append(texts, text)
					}
					return texts, nil
				}),
				"preprocess": Preprocess(describeSale, Each(func(_ context.Context, text string) (string, error) { return text, nil })),
			}[name]
			if name == "processes" {
				h = f.inProcesses("sales")
			}
			o := f.run(h, "in.csv", input)
			require.Equal(t, lines(`"2 5 true 2026-11-25 true 5"`, `"1 0 false 0001-01-01 false "`), o.output)
			require.Len(t, o.failures, 2)
			for i, want := range []string{`column "ID": "x" is not an integer of 64 bits`, `column "paid": "maybe" is not true or false`} {
				if name != "processes" { // the protocol has errors of one kind
					require.Equal(t, job.KindInvalid, o.failures[i].Kind)
				}
				require.Contains(t, o.failures[i].Error.Message, want)
			}
		})
	}
}

// In JSON a text is no number, and what a first function has made of a record is no record any more.
func TestRecords_OnlyOfCSV(t *testing.T) {
	t.Parallel()
	o := setup(t).run(Each(describeSale), "in.jsonl", lines(`{"id":"1"}`, `{"id":1}`))
	require.Len(t, o.failures, 1)
	require.Equal(t, job.KindError, o.failures[0].Kind)
	require.EqualValues(t, 0, o.failures[0].Item)

	again := Preprocess(func(_ context.Context, s map[string]string) (map[string]string, error) { return s, nil }, Each(describeSale))
	o = setup(t).run(again, "in.csv", "id\n1\n")
	require.Len(t, o.failures, 1)
	require.Equal(t, job.KindError, o.failures[0].Kind)
}
