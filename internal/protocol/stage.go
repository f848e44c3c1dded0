package protocol

// A pipeline is a job with several stages. A batch goes through them one after the other, each time as an execution of
// Process by the stage's own pool. What a stage but the last has made of it is a parcel.

// Stage is what an execution is told of its stage.
type Stage struct {
	Name string `json:"name"`
	// Last: the results are the job's. Otherwise they are for the next stage.
	Last bool `json:"last,omitempty"`
}

// Parcel is a part that one stage has written for the next: one line for each item, empty if it has no result there. Its errors
// are those of all stages so far.
type Parcel struct {
	// Stage is how many stages are done: the index of the one that the parcel is for.
	Stage int `json:"s"`
	// Run is the run below whose prefix the part lies.
	Run string `json:"r"`
	// Part is the token in its name; First and Count are the items that it has.
	Part  string `json:"p"`
	First int64  `json:"f,omitempty"`
	Count int64  `json:"n"`
	// Format is that of its lines, jsonl or text.
	Format string `json:"m"`

	Bytes    int64  `json:"b"`
	Sum      uint32 `json:"c"` // CRC-32C
	ErrBytes int64  `json:"eb,omitempty"`
	ErrSum   uint32 `json:"ec,omitempty"`
}
