package pystack

var (
	LineIn   = lineIn
	Location = location
)

// Runtime returns the address of the interpreter's runtime, which a look has found.
func (t *Target) Runtime() uint64 { return t.runtime }
