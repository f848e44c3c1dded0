package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// shells are those that complete stint's commands: where an archive has their scripts, and where systems look for them.
var shells = []struct{ name, file, installed string }{
	{"bash", "completions/stint.bash", "usr/share/bash-completion/completions/stint"},
	{"zsh", "completions/_stint", "usr/share/zsh/site-functions/_stint"},
	{"fish", "completions/stint.fish", "usr/share/fish/vendor_completions.d/stint.fish"},
}

// manual makes the manual page of the help texts, as they are.
func (r *release) manual(ask func(args ...string) (string, error)) ([]byte, error) {
	listed, err := ask("__complete", "")
	if err != nil {
		return nil, err
	}
	help, err := ask("--help")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH STINT 1 %q %q %q\n", r.date.Format("2006-01-02"), "stint "+r.version, "User Commands")
	fmt.Fprintf(&b, ".SH NAME\nstint \\- %s\n.SH SYNOPSIS\n.B stint\n.I COMMAND\n.SH DESCRIPTION\n", roff(summary))
	verbatim(&b, help)
	b.WriteString(".SH COMMANDS\n")
	for _, line := range strings.Split(listed, "\n") {
		name, _, described := strings.Cut(line, "\t")
		if !described || name == "help" || strings.HasPrefix(name, "-") {
			continue
		}
		if help, err = ask(name, "--help"); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, ".SS stint %s\n", roff(name))
		verbatim(&b, help)
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", roff(project))
	return b.Bytes(), nil
}

func verbatim(b *bytes.Buffer, text string) {
	fmt.Fprintf(b, ".nf\n%s\n.fi\n", roff(strings.TrimSpace(text)))
}

// roff writes a text so that man prints it as it is.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	return regexp.MustCompile(`(?m)^([.'])`).ReplaceAllString(text, `\&$1`)
}

// notes cuts what has changed out of the changelog: the section of the version, or what is not released yet.
func (r *release) notes() ([]byte, error) {
	text, err := r.read("CHANGELOG.md")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{r.version, "Unreleased"} {
		if cut := section(string(text), name); cut != "" {
			return fmt.Appendf(nil, "# stint %s, %s\n\n%s\n", r.version, r.date.Format("2006-01-02"), cut), nil
		}
	}
	return nil, fmt.Errorf("CHANGELOG.md: there is no heading '## %s', nor '## Unreleased'", r.version)
}

// section returns what is below the heading of a version, such as '## 0.1.0', '## [0.1.0] - 2026-12-01' or '## v0.1.0'; "": there
// is none, or nothing below it.
func section(changelog, version string) string {
	heading := regexp.MustCompile(`(?m)^## \[?v?` + regexp.QuoteMeta(version) + `\]?(?: .*)?$`).FindStringIndex(changelog)
	if heading == nil {
		return ""
	}
	below := changelog[heading[1]:]
	if next := regexp.MustCompile(`(?m)^## `).FindStringIndex(below); next != nil {
		below = below[:next[0]]
	}
	return strings.TrimSpace(below)
}
