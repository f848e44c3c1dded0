package codec

import (
	"reflect"
	"slices"
	"strings"
)

// field is a field of a struct as encoding/json sees it.
type field struct {
	name   string
	typ    reflect.Type
	asText bool // it has the option ",string": encoding/json decodes it from a text
	tagged bool // the tag names it
	depth  int  // of embedding
}

// fieldsOf returns the fields of a struct, and of those embedded in it, by the rules of encoding/json: of several with one name the one that
// is embedded least deep counts, among those the only one that a tag names, and otherwise none.
func fieldsOf(t reflect.Type) []field {
	var all []field
	gather(t, 0, nil, &all)
	var fields []field
	for i, f := range all {
		if dominates(f, i, all) {
			fields = append(fields, f)
		}
	}
	return fields
}

// gather adds the fields of a struct at a depth. within are the structs that it is embedded in.
func gather(t reflect.Type, depth int, within []reflect.Type, all *[]field) {
	if slices.Contains(within, t) {
		return
	}
	within = append(slices.Clip(within), t)
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case tag == "-" || !f.IsExported() && !(f.Anonymous && embedded.Kind() == reflect.Struct):
			continue
		case f.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
			gather(embedded, depth+1, within, all)
			continue
		}
		asText := false
		for option := range strings.SplitSeq(options, ",") {
			asText = asText || option == "string"
		}
		named := field{name: name, typ: f.Type, asText: asText, tagged: name != "", depth: depth}
		if name == "" {
			named.name = f.Name
		}
		*all = append(*all, named)
	}
}

// dominates reports whether the field at an index is the one of its name that counts.
func dominates(f field, index int, all []field) bool {
	for i, o := range all {
		if i == index || o.name != f.name {
			continue
		}
		if o.depth < f.depth || o.depth == f.depth && (o.tagged || !f.tagged) {
			return false
		}
	}
	return true
}
