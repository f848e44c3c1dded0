package page

import (
	"bytes"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/stint-run/stint/internal/base/calltimes"
	"github.com/stint-run/stint/job"
)

// evil is a text that does harm wherever it is not escaped.
const evil = `"'><xss onxss=alert(1)></title></script></textarea></svg><xss>&lt;javascript:alert(1)`

// spoil puts it into every text of a value, gives numbers a value, and fills lists.
func spoil(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() != reflect.TypeFor[job.State]() && v.Type() != reflect.TypeFor[calltimes.Text]() && v.CanSet() {
			v.SetString(evil)
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Pointer:
		if depth < 6 {
			v.Set(reflect.New(v.Type().Elem()))
			spoil(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 && depth < 6 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			for i := range v.Len() {
				spoil(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		spoil(value, depth+1)
		v.SetMapIndex(reflect.ValueOf(evil).Convert(v.Type().Key()), value)
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Now().Add(-time.Hour)
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() || v.Type().Field(i).Anonymous {
				spoil(v.Field(i), depth+1)
			}
		}
	}
}

// requireHarmless requires that a page has no element and no attribute from its texts, and has them as texts.
func requireHarmless(t *testing.T, page string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	found := false
	for n := range doc.Descendants() {
		found = found || n.Type == html.TextNode && strings.Contains(n.Data, "<xss onxss=alert(1)>")
		require.NotEqual(t, "xss", n.Data)
		if n.Type != html.ElementNode {
			continue
		}
		for _, a := range n.Attr {
			require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc", "%s of %s", a.Key, n.Data)
			if a.Key == "href" || a.Key == "src" || a.Key == "action" {
				require.True(t, strings.HasPrefix(a.Val, "/") || a.Val == "#main", "%s=%s", a.Key, a.Val)
				require.NotContains(t, a.Val, `"`)
			}
		}
		if n.Data == "script" {
			require.Nil(t, n.FirstChild)
		}
	}
	require.True(t, found, "the texts are there")
}

// evilJob is a job each text of which is evil.
func evilJob(state job.State) Job {
	var j Job
	spoil(reflect.ValueOf(&j).Elem(), 0)
	j.State, j.CallTimes, j.StopDeadline = state, "5203 10:3 12:9", nil
	j.spec = &job.Spec{}
	spoil(reflect.ValueOf(j.spec).Elem(), 4)
	spoil(reflect.ValueOf(&j.examples).Elem(), 0)
	j.Planned, j.OK, j.Failed = 100, 7, 7
	j.Samples = []job.Sample{{At: time.Now().Add(-time.Minute), OK: 1, P50: 1, P95: 2, Max: 3, Expiries: 1, Deaths: 1, Retries: 1}, {At: time.Now(), OK: 9, P50: 1, P95: 2, Max: 3}}
	return j
}

// U2: markup and scripts in names, items, errors, addresses, pools and texts of pictures are texts on the page.
func TestEscape_Everything(t *testing.T) {
	t.Parallel()
	for _, actions := range []bool{true, false} {
		p := &Page{options: Options{Actions: actions, Program: "stint", Temporal: "/namespaces/default"}}
		show := func(page string, view any) {
			t.Helper()
			var b bytes.Buffer
			require.NoError(t, templates()[page].ExecuteTemplate(&b, "layout.html", &frame{Title: evil, Page: page, Events: evil, View: view}))
			requireHarmless(t, b.String())
			content, err := contentOf(page, view)
			require.NoError(t, err)
			requireHarmless(t, "<main>"+content+"</main>")
		}
		now := time.Now()
		for _, state := range stateNames {
			j := evilJob(state)
			show("job", p.newJobView(j, now))
			j.Loop, j.spec = nil, nil
			show("job", p.newJobView(j, now))
			var list JobList
			spoil(reflect.ValueOf(&list).Elem(), 0)
			for i := range list.Jobs {
				list.Jobs[i].State = state
			}
			show("jobs", newListView(list, url.Values{"name": {evil}, "pool": {evil}, "from": {evil}, "state": {evil}}, now))
		}
		var found poolsAndWorkers
		spoil(reflect.ValueOf(&found.Workers).Elem(), 0)
		found.pools = []string{evil, "none"}
		show("workers", newWorkersView(found, now))
		show("login", loginView{evil, evil})
		show("missing", missingView{evil, evil, true})
	}
}

// U2: a name that is none is refused before anything is asked.
func TestEscape_Names(t *testing.T) {
	t.Parallel()
	p, _ := setup(t, Options{})
	for _, path := range []string{"/stint/jobs/" + url.PathEscape(evil), "/stint/" + url.PathEscape(evil), "/stint/?state=" + url.QueryEscape(evil), "/stint/?pool=" + url.QueryEscape(evil), "/stint/?from=" + url.QueryEscape(evil)} {
		a := send(t, p, "GET", path, "")
		require.GreaterOrEqual(t, a.status, 400, path)
		require.NotContains(t, a.body, "<xss")
	}
}

// U8: a page alone in a file has no script, and names its styles.
func TestReport_IsAlone(t *testing.T) {
	t.Parallel()
	p := &Page{options: Options{Program: "stint"}}
	var b bytes.Buffer
	require.NoError(t, p.writeReport(evilJob(job.Completed), &b))
	page := b.String()
	doc, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	for n := range doc.Descendants() {
		require.NotContains(t, []string{"script", "link", "xss", "img", "iframe", "dialog"}, n.Data)
		if n.Data == "style" {
			require.Contains(t, page, strings.ReplaceAll(fmt.Sprintf("style-src '%s'", styleHash([]byte(n.FirstChild.Data))), "+", "&#43;"))
		}
	}
	require.NotRegexp(t, `(href|src)="(https?:)?//`, page)
}
