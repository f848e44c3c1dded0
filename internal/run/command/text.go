package command

import (
	"bytes"
	"encoding/json"
)

// Text is a text with the placeholders of commands, for what quotes values in its own way. It is safe for concurrent
// use.
type Text struct{ Parts []Part }

// Part is either text or, if Value is set, a placeholder.
type Part struct {
	Text  string
	Value *Placeholder
}

// Placeholder stands for a value of an item.
type Placeholder struct{ p *placeholder }

// ParseText returns a text whose placeholders are written as in a word of a command.
func ParseText(text string) (Text, error) {
	w, err := parseWord(text)
	if err != nil {
		return Text{}, err
	}
	var t Text
	for _, p := range w {
		if p.value != nil {
			t.Parts = append(t.Parts, Part{Value: &Placeholder{p.value}})
		} else {
			t.Parts = append(t.Parts, Part{Text: p.text})
		}
	}
	return t, nil
}

// ParsePlaceholder returns the placeholder that has the text between its braces.
func ParsePlaceholder(inside string) (*Placeholder, error) {
	p, err := parsePlaceholder(inside)
	if err != nil {
		return nil, err
	}
	return &Placeholder{p}, nil
}

// String returns the placeholder as it was written.
func (p *Placeholder) String() string { return p.p.text }

// JSON returns the value as JSON: that of a field as the item has it, anything that is text as a string. The error is a
// *ValueError.
func (p *Placeholder) JSON(item *Item) (json.RawMessage, error) {
	value, err := p.json(item)
	if err != nil {
		return nil, &ValueError{p.p.text, err.Error()}
	}
	return value, nil
}

func (p *Placeholder) json(item *Item) (json.RawMessage, error) {
	r := &rendering{item: item}
	switch {
	case p.p.of == itemNumber || p.p.of == slotNumber:
		text, err := r.value(p.p)
		return json.RawMessage(text), err
	case !item.JSON || p.p.form != asIs:
		text, err := r.value(p.p)
		if err != nil {
			return nil, err
		}
		return quote(text)
	case p.p.of == wholeItem:
		return bytes.TrimSpace(item.Data), nil
	case p.p.of == itemColumn:
		return r.element(p.p.column)
	}
	return r.raw(p.p.field)
}

// Text returns the value as text: a string without its quotes, anything else as JSON. The error is a *ValueError.
func (p *Placeholder) Text(item *Item) (string, error) {
	r := &rendering{item: item}
	text, err := "", error(nil)
	if p.p.of == wholeItem && item.JSON {
		if text, err = plain(bytes.TrimSpace(item.Data)); err == nil {
			text = p.p.form.of(text)
		}
	} else {
		text, err = r.value(p.p)
	}
	if err != nil {
		return "", &ValueError{p.p.text, err.Error()}
	}
	return text, nil
}
