package job

// Redrive describes the completed job whose failed items a redrive runs again.
type Redrive struct {
	Manifests []string `json:"manifests"` // heads of the completed job's manifest chain
	Output    Output   `json:"output"`    // the completed job's
	Planned   int64    `json:"planned"`   // items of the completed job
	// Where selects the failed items that run again, by their errors in the completed job; empty: all.
	Where Where `json:"where,omitempty"`
	// Runs are the completed job's run and at most the last 100 attempts at this redrive. Nobody needs their data in
	// the store once the redrive has completed. Done finds what earlier attempts have recorded.
	Runs []string `json:"runs"`
	// Done, in the report of a redrive, lists the heads of the manifest chain of what it has done so
	// far: another attempt continues from there.
	Done []string `json:"done,omitempty"`
}
