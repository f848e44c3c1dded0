package remote

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-run/stint/internal/base/text"
)

// shortSecret is the fewest bytes that a secret has: shorter values are found everywhere, and are no keys.
const shortSecret = 4

// redactor keeps secrets out of texts, in each form in which servers repeat them.
type redactor struct {
	forms []string // the longest first
}

// add takes in a secret.
func (r *redactor) add(secret string) {
	if len(secret) < shortSecret {
		return
	}
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), percent(secret)}
	for _, escaped := range forms[1:] {
		forms = append(forms, lowerHex(escaped))
	}
	if quoted, err := json.Marshal(secret); err == nil {
		inner := string(quoted[1 : len(quoted)-1])
		forms = append(forms, inner, strings.ReplaceAll(inner, "/", `\/`))
	}
	if quoted, err := text.JSON(secret); err == nil {
		inner := string(quoted[1 : len(quoted)-1])
		forms = append(forms, inner, strings.ReplaceAll(inner, "/", `\/`))
	}
	forms = append(forms, base64Forms(secret)...)
	for _, form := range forms {
		if !slices.Contains(r.forms, form) {
			r.forms = append(r.forms, form)
		}
	}
	slices.SortStableFunc(r.forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
}

// addCredential takes in the value of a header that is a secret, without the name of its scheme.
func (r *redactor) addCredential(value string) {
	value = strings.TrimSpace(value)
	r.add(value)
	scheme, credential, ok := strings.Cut(value, " ")
	if !ok {
		return
	}
	credential = strings.TrimSpace(credential)
	r.add(credential)
	if !strings.EqualFold(scheme, "Basic") {
		return
	}
	if pair, err := base64.StdEncoding.DecodeString(credential); err == nil {
		r.add(string(pair))
		_, password, _ := strings.Cut(string(pair), ":")
		r.add(password)
	}
}

// base64Forms returns what a secret is in base64, wherever it stands in what is encoded.
func base64Forms(secret string) (forms []string) {
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			padded := strings.Repeat("x", before) + secret
			encoded := encoding.EncodeToString([]byte(padded))
			// The first characters and the last one also hold bits of what stands beside the secret.
			from, to := (before*8+5)/6, len(padded)*8/6
			if form := encoded[from:to]; len(form) >= shortSecret {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// lowerHex returns a text whose percent-encoded bytes are in lower case.
func lowerHex(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

// clean returns the text with … in place of secrets.
func (r *redactor) clean(s string) string {
	for _, form := range r.forms {
		s = strings.ReplaceAll(s, form, "…")
	}
	return s
}

// cleanStart is clean for the beginning of a text: a secret that is cut off at its end goes too.
func (r *redactor) cleanStart(s string) string {
	s = r.clean(s)
	for _, form := range r.forms {
		for n := min(len(form)-1, len(s)); n >= shortSecret; n-- {
			if strings.HasSuffix(s, form[:n]) {
				s = s[:len(s)-n]
				break
			}
		}
	}
	return s
}
