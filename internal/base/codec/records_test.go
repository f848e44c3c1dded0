package codec

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// row has fields of all kinds that a record of CSV may have.
type row struct {
	ID      int64 `json:"id"`
	Small   uint8
	Price   float64   `json:"price,omitempty"`
	OK      bool      `json:"ok"`
	At      time.Time `json:"at"`
	Name    string    `json:"name"`
	Any     any       `json:"any"`
	Count   *int      `json:"count"`
	Note    *string   `json:"note"`
	Until   *time.Time
	Number  json.Number `json:"number"`
	Quoted  int         `json:"quoted,string"`
	Tags    []string    `json:"tags"`
	Own     textMethods `json:"own"`
	Ignored int         `json:"-"`
	within
}

type within struct {
	Depth int `json:"depth"`
	Name  int `json:"name"` // hidden
}

// 14.13: the texts of a record become what the fields of a struct want.
func TestForRecords(t *testing.T) {
	t.Parallel()
	date := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	at := time.Date(2026, 11, 25, 1, 2, 3, 500e6, time.FixedZone("", 3600))
	one, note := 1, " a \"b\" "
	for name, c := range map[string]struct {
		record string
		want   row
	}{
		"all": {
			`{"id":"-5","SMALL":" 255 ","price":"1e3","ok":"T","at":"2026-11-25","name":" 5 ","any":"5","count":"1","note":" a \"b\" ","until":"2026-11-25T01:02:03.5+01:00",` +
				`"number":"1.50","quoted":"7","tags":"[\"a\",\"b\"]","ignored":"x","depth":"+3","else":"x"}`,
			row{ID: -5, Small: 255, Price: 1000, OK: true, At: date, Name: " 5 ", Any: "5", Count: &one, Note: &note, Until: &at, Number: "1.50", Quoted: 7,
				Tags: []string{"a", "b"}, within: within{Depth: 3}},
		},
		"empty":   {`{"id":"","Small":" ","price":"","ok":"","at":"","name":"","count":"","note":"","Until":"","number":"","tags":"","depth":""}`, row{}},
		"none":    {`{}`, row{}},
		"escapes": {`{"\u0069d":"\u0035","a\"":"\\","ok":"1"}`, row{ID: 5, OK: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, base := range []Codec{Standard, ForDecoding(reflect.TypeFor[row]())} {
				var got row
				require.NoError(t, ForRecords(reflect.TypeFor[row](), base).Unmarshal([]byte(c.record), &got))
				if got.Until != nil {
					require.True(t, c.want.Until.Equal(*got.Until))
					got.Until = c.want.Until
				}
				require.Equal(t, c.want, got)
			}
		})
	}
	var p *row
	require.NoError(t, ForRecords(reflect.TypeFor[*row](), Standard).Unmarshal([]byte(`{"id":"5"}`), &p))
	require.EqualValues(t, 5, p.ID)
}

func TestForRecords_Errors(t *testing.T) {
	t.Parallel()
	for record, want := range map[string]string{
		`{"id":"5x"}`:         `column "id": "5x" is not an integer of 64 bits`,
		`{"id":"1.0"}`:        `column "id": "1.0" is not an integer of 64 bits`,
		`{"small":"256"}`:     `column "small": "256" is not an integer of 8 bits without a sign`,
		`{"price":"1,5"}`:     `column "price": "1,5" is not a number`,
		`{"price":"NaN"}`:     `column "price": "NaN" is not a number`,
		`{"number":"x"}`:      `column "number": "x" is not a number`,
		`{"ok":"yes"}`:        `column "ok": "yes" is not true or false`,
		`{"at":"25.11.2026"}`: `column "at": "25.11.2026" is not a date or time: write 2006-01-02 or 2006-01-02T15:04:05Z`,
		`{"tags":"[a]"}`:      `column "tags": "[a]" is not JSON`,
		`{"name":"x","id":"` + strings.Repeat("9", 200) + `"}`: `column "id": "` + strings.Repeat("9", 77),
	} {
		var got row
		err := ForRecords(reflect.TypeFor[row](), Standard).Unmarshal([]byte(record), &got)
		require.IsType(t, &ColumnError{}, err, record)
		require.ErrorContains(t, err, want)
	}
}

// Types that take texts as they are have no codec of their own, and what is not a record is left to theirs.
func TestForRecords_Others(t *testing.T) {
	t.Parallel()
	for _, typ := range []reflect.Type{
		reflect.TypeFor[map[string]string](), reflect.TypeFor[any](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[time.Time](),
		reflect.TypeFor[struct{ A, B string }](), reflect.TypeFor[textMethods](),
	} {
		require.Equal(t, Standard, ForRecords(typ, Standard), typ)
	}
	for _, data := range []string{`[1]`, `{"id":5}`, `{"id"`, ``, `null`} {
		var want, got row
		wantErr := json.Unmarshal([]byte(data), &want)
		require.Equal(t, wantErr, ForRecords(reflect.TypeFor[row](), Standard).Unmarshal([]byte(data), &got))
		require.Equal(t, want, got)
	}
}

// Fields are those that encoding/json finds.
func TestFieldsOf(t *testing.T) {
	t.Parallel()
	type A struct {
		X int
		Y int `json:"y"`
		Z int
	}
	type B struct {
		X int
		Q int `json:"Z"`
	}
	type C struct {
		A
		*B
		B2 B `json:"b"`
		hidden
		Y string `json:"Y"`
	}
	names := map[string]bool{}
	for _, f := range fieldsOf(reflect.TypeFor[C]()) {
		names[f.name] = true
	}
	var c C
	c.B = &B{}
	data, err := json.Marshal(c)
	require.NoError(t, err)
	var want map[string]any
	require.NoError(t, json.Unmarshal(data, &want))
	require.Len(t, names, len(want), "%v %s", names, data)
	for name := range want {
		require.True(t, names[name], name)
	}
}

type hidden struct{ Shown int }

// Whatever the columns hold, a value is what it is in JSON, or a *ColumnError names it.
func TestForRecords_Random(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	alphabet := []rune("0159.-+e \"\\{}[],:\u2028é<true")
	for range 5000 {
		texts := map[string]string{}
		for _, name := range []string{"id", "price", "ok", "name", "note"} {
			text := make([]rune, random.IntN(5))
			for i := range text {
				text[i] = alphabet[random.IntN(len(alphabet))]
			}
			texts[name] = string(text)
		}
		record, err := json.Marshal(texts)
		require.NoError(t, err)
		var got row
		err = ForRecords(reflect.TypeFor[row](), Standard).Unmarshal(record, &got)
		if err != nil {
			require.IsType(t, &ColumnError{}, err)
			continue
		}
		require.Equal(t, texts["name"], got.Name)
		if texts["note"] == "" {
			require.Nil(t, got.Note)
		} else {
			require.Equal(t, texts["note"], *got.Note)
		}
	}
}
