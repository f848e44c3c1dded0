package wire

// A pipeline is a job with several stages. It is compiled to steps, which every batch goes through one after the other,
// each time as an execution of Process by the step's own pool. What a step but the last has made of it is a part that
// later steps read.

// Stage describes its step to an execution.
type Stage struct {
	// Name is that of the stage, in error records.
	Name string `json:"name"`
	// Read is what the step reads of the batch's parcel. Nil: the items as the job got them.
	Read *View `json:"read,omitempty"`
	// Writes is the number of the part that it writes.
	Writes int `json:"writes,omitempty"`
	// Last: the results are the job's.
	Last bool `json:"last,omitempty"`
	// Inner: what becomes of an item here does not decide what becomes of it in the job: the step is one of an
	// ensemble's or a switch's.
	Inner bool `json:"inner,omitempty"`
	// Cut asks for cuts of the batch, about so many items apart; 0: none are wanted.
	Cut int64 `json:"cut,omitempty"`
	// Gather: the results are the items themselves, as Read has them. No handler is called.
	Gather bool `json:"gather,omitempty"`
}

// View is what a step reads: for each item a value, or what has settled it. Parts are named by their numbers, from 1.
type View struct {
	// Part is a part that has what the view is made of. If nothing else is set the view is the part itself.
	Part int `json:"p"`
	// Values are the items of Part that have a result, and leaves out the others.
	Values bool `json:"v,omitempty"`
	// Route, with Case, leaves out the items that are not of the case with that index: see [Route].
	Route *Route `json:"r,omitempty"`
	Case  int    `json:"c,omitempty"`
	// Pick has for each item of Part the view of the case that Route gives it.
	Pick []View `json:"k,omitempty"`
	// Zip has for each item of Part the list of what these views have: those of an ensemble's members.
	Zip        []View `json:"z,omitempty"`
	KeepErrors bool   `json:"e,omitempty"` // see job.Stage
	// Stage is the name of the ensemble or the switch that has the view.
	Stage string `json:"s,omitempty"`
}

// Route is how a switch finds the case of an item.
type Route struct {
	// Field is that of the item that says it, such as ".kind". Empty: the answer in the part of that number says it.
	Field  string `json:"f,omitempty"`
	Answer int    `json:"a,omitempty"`
	// Cases are the values of the cases.
	Cases []string `json:"c"`
	// Else: another value belongs to a further case, the last one.
	Else bool `json:"e,omitempty"`
}

// Parcel is what steps have made of a batch's items so far.
type Parcel struct {
	// Step is the index of the step that the parcel is for.
	Step int `json:"s"`
	// Run is the run that has counted the items.
	Run string `json:"r"`
	// Parts are those that steps from Step on read.
	Parts []Part `json:"p"`
	// Routed says which cases of a switch the items belong to, a bit for each, by the number of the switch; 0: not
	// known.
	Routed []uint32 `json:"t,omitempty"`
	// Cuts are in order. A batch without bytes can be split anywhere.
	Cuts []Cut `json:"u,omitempty"`
}

// digest adds the parcel to a checksum.
func (p *Parcel) digest(sum uint32) uint32 {
	sum = digestText(digest(sum, int64(p.Step)), p.Run)
	sum = digest(sum, int64(len(p.Parts)), int64(len(p.Routed)), int64(len(p.Cuts)))
	for i := range p.Parts {
		sum = p.Parts[i].digest(sum)
	}
	for _, cases := range p.Routed {
		sum = digest(sum, int64(cases))
	}
	for _, cut := range p.Cuts {
		sum = digest(sum, cut.Item, cut.Offset)
	}
	return sum
}

// MaxCuts is how many cuts a parcel has at most.
const MaxCuts = 16

// Cut is a place at which a batch can be split.
type Cut struct {
	Item   int64 `json:"i"` // the ordinal of the first item after it
	Offset int64 `json:"o"` // where that begins in the source
}

// Part is what one step has made of a batch's items, and perhaps of others before and after them: one line for each
// item, empty if it has no result there, and the errors of items.
type Part struct {
	Number int `json:"i"`
	// Run is the run below whose prefix the objects lie.
	Run string `json:"r"`
	// Token is in their names; First and Count are the items that they have.
	Token string `json:"p"`
	First int64  `json:"f,omitempty"`
	Count int64  `json:"n"`
	// Format is that of the lines, jsonl or text.
	Format string `json:"m"`

	Bytes    int64  `json:"b"`
	Sum      uint32 `json:"c"` // CRC-32C
	ErrBytes int64  `json:"eb,omitempty"`
	ErrSum   uint32 `json:"ec,omitempty"`

	// Inline has what the objects would have: that of a small part of a feed. Nil: it is in the store.
	Inline *Lines `json:"h,omitempty"`
}

// digest adds the part to a checksum, but for its inline lines, which have their own.
func (p *Part) digest(sum uint32) uint32 {
	for _, s := range [...]string{p.Run, p.Token, p.Format} {
		sum = digestText(sum, s)
	}
	return digest(sum, int64(p.Number), p.First, p.Count, p.Bytes, int64(p.Sum), p.ErrBytes, int64(p.ErrSum))
}

// Lines are those of a part that is not in the store.
type Lines struct {
	Results []byte `json:"r,omitempty"`
	Errors  []byte `json:"e,omitempty"`
}

// EachPart calls yield with each part that the view is made of.
func (v *View) EachPart(yield func(part int)) {
	yield(v.Part)
	if v.Route != nil && v.Route.Answer > 0 {
		yield(v.Route.Answer)
	}
	for i := range v.Zip {
		v.Zip[i].EachPart(yield)
	}
	for i := range v.Pick {
		v.Pick[i].EachPart(yield)
	}
}
