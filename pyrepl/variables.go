package pyrepl

import "context"

// A Variable is one name of a session's namespace. Value is set for exact built-in types only,
// shortened to about 200 characters. Len and Shape are set if they are known without running Python
// code.
type Variable struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`
	Value string  `json:"value"`
	Len   *int64  `json:"len"`   // of a built-in container; not of a text that Value shows
	Shape []int64 `json:"shape"` // of an array, a frame or a series
}

// Variables is what is known of a session's namespace.
type Variables struct {
	Vars  []Variable
	Total int    // with the others, and those that were left out
	AsOf  string // the job at whose end they were reported; empty: now
	Busy  string // the running job; Vars then has all names, and nothing but names
	others
}

// The others are the names of what is no data.
type others struct {
	Modules   []string `json:"modules"`
	Functions []string `json:"functions"`
	Classes   []string `json:"classes"`
}

// Variables lists the names of the namespace without running user code. It does not wait for a busy
// session: it returns the names that were reported last, and by which job. A session that was never
// used has none.
func (s *Session) Variables(ctx context.Context) (Variables, error) {
	var last *Variables
	ev, err := s.ask(ctx, func(n int) command { return variablesCommand{n} }, func() { v := s.lastNames(); last = &v })
	if last != nil {
		return *last, nil
	}
	now, _ := ev.(variablesEvent)
	return Variables{Vars: now.Vars, Total: now.Total, others: now.others}, err
}

// lastNames returns the names that were reported last, or none if a reset is about to end them. The
// caller holds mu.
func (s *Session) lastNames() Variables {
	if s.resets() {
		return Variables{Busy: s.turn.job()}
	}
	v := Variables{AsOf: s.asOf, Busy: s.turn.job(), Total: len(s.names)}
	for _, name := range s.names {
		v.Vars = append(v.Vars, Variable{Name: name})
	}
	return v
}
