package page_test

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// checks finds what people cannot read, reach or hear on a page, as axe-core does.
//
//go:embed testdata/readable.js
var checks string

// requireReadable requires that everything on the page has a name, a label and enough contrast, also on a phone, in
// dark, and with letters of twice the size.
func (b *tab) requireReadable(what string) {
	b.t.Helper()
	for _, look := range []struct {
		width int64
		dark  bool
	}{{1280, false}, {1280, true}, {390, false}, {640, true}} { // 640 is 1280 at 200 %
		b.look(look.width, look.dark)
		found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](checks))
		require.NoError(b.t, err)
		require.Empty(b.t, found, "%s, %+v", what, look)
	}
	b.look(1280, false)
}

// U4: the checks find what is wrong.
func TestReadable_Finds(t *testing.T) {
	t.Parallel()
	chromium(t)
	f := &fixture{t: t}
	b := f.browse()
	b.do("a bad page", chromedp.Navigate(`data:text/html,<html><body><p style="color:%23999;background:%23fff">pale</p><button></button><input><img src=x>`+
		`<svg role=img></svg><a href=x></a><h1>a</h1><h4>b</h4><p id=x></p><p id=x></p><div style="width:3000px">wide</div>`))
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](checks))
	require.NoError(t, err)
	for _, wanted := range []string{"contrast", "button has no name", "input has no label", "svg has no name", "a has no name", "h4 after h1", "id x", "wider", "no language"} {
		require.Condition(t, func() bool {
			for _, one := range found {
				if strings.Contains(one, wanted) {
					return true
				}
			}
			return false
		}, "%s in %q", wanted, found)
	}
}
