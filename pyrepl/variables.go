package pyrepl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"asyncrepl/internal/runner"
)

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
	Vars   []Variable
	Total  int    // with the others, and those that were left out
	AsOf   string // the job at whose end they were reported; empty: now
	Busy   string // the running job; Vars then has all names, and nothing but names
	Silent bool   // the worker is idle and does not answer; Vars is as if it were busy
	Lost   *Loss  // nil: the worker is alive, or was ended
	others
}

// The others are the names of what is no data.
type others struct {
	Modules   []string `json:"modules"`
	Functions []string `json:"functions"`
	Classes   []string `json:"classes"`
}

// Variables lists the names of the namespace without running user code. It does not wait for a busy
// session, and for an idle one a second: it returns the names that were reported last, and by which
// job. A session that was never used has none.
func (s *Session) Variables(ctx context.Context) (Variables, error) {
	var last *Variables
	ev, err := s.ask(ctx, func(n int) command { return variablesCommand{n} }, func() { v := s.lastVariables(); last = &v })
	switch {
	case last != nil:
		return *last, nil
	case errors.Is(err, errSilent):
		s.mu.Lock()
		defer s.mu.Unlock()
		v := s.lastVariables()
		v.Silent = true
		return v, nil
	}
	if loss := s.Lost(); loss != nil {
		return Variables{Lost: loss}, nil
	}
	now, _ := ev.(variablesEvent)
	return Variables{Vars: now.Vars, Total: now.Total, others: now.others}, err
}

// lastVariables returns the names that were reported last, or none if a reset is about to end them.
// The caller holds mu.
func (s *Session) lastVariables() Variables {
	if s.resets() {
		return Variables{Busy: s.turn.job()}
	}
	v := Variables{AsOf: s.asOf, Busy: s.turn.job(), Total: len(s.names)}
	for _, name := range s.names {
		v.Vars = append(v.Vars, Variable{Name: name})
	}
	return v
}

// lastNames returns the names that were reported last.
func (s *Session) lastNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names
}

// A Loss is the death of the worker of an idle session, which no job's receipt tells.
type Loss struct {
	Session string
	Job     string // that the worker ran last
	How     string // the worker ended: "was killed by SIGKILL"
	Names   []string
}

// Lost returns the death of the session's worker, if it is idle and has not been replaced, else nil.
func (s *Session) Lost() *Loss {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil || s.w == nil || !runner.Ended(s.w.handle) {
		return nil
	}
	return &Loss{Session: s.name, Job: s.w.lastJob(), How: exitText(s.w.handle.Exit()), Names: s.names}
}

// String says what was lost, and when.
func (l *Loss) String() string {
	return fmt.Sprintf("session %s's Python %s after job %s; %s", l.Session, l.How, l.Job, lost(l.Names))
}

// The names of lost variables that are listed, and their characters. Others are counted.
const (
	lostNames = 20
	lostChars = 160
)

// lost lists the names of lost variables.
func lost(names []string) string {
	shown := 0
	for n := 0; shown < min(len(names), lostNames); shown++ {
		if n += len(names[shown]) + 2; n > lostChars {
			break
		}
	}
	text := "variables lost"
	if shown > 0 {
		text += ": " + strings.Join(names[:shown], ", ")
	}
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
