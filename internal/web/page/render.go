package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"sync"
	"time"
)

// assets are the templates, the styles, the script and the icon.
//
//go:embed assets
var assets embed.FS

// build distinguishes what this program serves from what others do.
var build = sync.OnceValue(func() string {
	sum := sha256.New()
	_ = fs.WalkDir(assets, ".", func(name string, entry fs.DirEntry, _ error) error { // it lies in the program
		if !entry.IsDir() {
			data, _ := assets.ReadFile(name)
			sum.Write(data)
		}
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)[:6])
})()

// pages are the names of the templates of pages.
var pages = []string{"jobs", "job", "workers", "login", "missing"}

// templates has those of each page.
var templates = sync.OnceValue(func() map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range pages {
		all[name] = template.Must(template.New("layout.html").ParseFS(assets, "assets/layout.html", "assets/parts.html", "assets/"+name+".html"))
	}
	return all
})

// frame is what surrounds a page's content.
type frame struct {
	Title, Build, Page string
	Events             string // address of the live updates; empty: there are none
	Temporal           string
	View               any
	Style              template.CSS // of a page alone in a file; empty: it has a server
	StyleHash          string
	Made               when
	Announce           string
}

// show answers with a page.
func (p *Page) show(w http.ResponseWriter, r *http.Request, page string, s source) {
	said, err := any(nil), s.err
	if err == nil {
		said, err = p.hub.now(r.Context(), s)
	}
	if err != nil {
		status, problem := explain(err)
		p.trouble(w, status, problem, s)
		return
	}
	p.render(w, http.StatusOK, page, &frame{Title: s.title, Events: s.events, View: s.view(said)})
}

// missingView is what the template of an error gets.
type missingView struct {
	Title, Text string
	Wait        bool // it may be there soon
}

// trouble answers with a page that says what is wrong. One that may be right soon asks again.
func (p *Page) trouble(w http.ResponseWriter, status int, problem Problem, s source) {
	v := missingView{Title: "This page cannot be shown", Text: problem.Message, Wait: status >= http.StatusInternalServerError}
	if status == http.StatusNotFound {
		v.Title = "Nothing found"
	}
	f := &frame{Title: s.title, View: v}
	if v.Wait {
		f.Events = s.events
	}
	p.render(w, status, "missing", f)
}

func (p *Page) missing(w http.ResponseWriter, said string) {
	p.render(w, http.StatusNotFound, "missing", &frame{Title: "Nothing found", View: missingView{Title: "Nothing found", Text: said}})
}

// render writes a page.
func (p *Page) render(w http.ResponseWriter, status int, page string, f *frame) {
	f.Build, f.Page, f.Temporal, f.Made = build, page, p.options.Temporal, at(time.Now())
	var b bytes.Buffer
	if err := templates()[page].ExecuteTemplate(&b, "layout.html", f); err != nil {
		p.options.Log.Error("a page could not be made", "page", page, "error", err)
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // the client has gone
}

// contentOf makes the part of a page that changes.
func contentOf(page string, view any) (string, error) {
	var b bytes.Buffer
	err := templates()[page].ExecuteTemplate(&b, "content", view)
	return b.String(), err
}

// asset answers with a style, the script or the icon. Their addresses name the build, so they never change.
func (p *Page) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	data, err := fs.ReadFile(assets, "assets/"+name)
	if errors.Is(err, fs.ErrNotExist) || path.Ext(name) == ".html" || path.Ext(name) == ".json" {
		p.missing(w, "There is no such file.")
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	if r.URL.Query().Get("v") == build {
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	_, _ = w.Write(data) // the client has gone
}

// styleHash names the styles in the policy of a page alone in a file.
func styleHash(style []byte) string {
	sum := sha256.Sum256(style)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
