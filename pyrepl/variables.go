package pyrepl

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"asyncrepl/pyrepl/worker"
)

// A Variable is one name of a session's namespace.
type Variable = worker.Variable

// Variables lists what is known of a session's namespace.
type Variables struct {
	worker.Others
	Vars   []Variable
	Total  int    // all names that match, including names that were left out of Vars
	AsOf   string // Vars was reported at the end of this job; empty: now
	Busy   string // the running job; Vars then has all names, and nothing but names
	Silent bool   // the worker is idle and did not answer in time; Vars is as if it were busy
	Lost   *Loss  // the death of the idle worker; nil: it is alive, or the session has none
}

// Variables lists the names of the namespace that match a glob pattern, or all if it is empty,
// without running user code. If the session is busy, or its idle worker does not answer within a
// second, it returns the names that were reported last and the job that reported them. A session
// that was never used has none.
func (s *Session) Variables(ctx context.Context, pattern string) (Variables, error) {
	var last *Variables
	var now worker.Namespace
	err := s.ask(
		func(w *worker.Worker) (err error) { now, err = w.Variables(ctx, notByBang(pattern)); return err },
		func() { v := s.lastVariables(pattern); last = &v },
	)
	switch {
	case last != nil:
		return *last, nil
	case errors.Is(err, worker.ErrSilent):
		s.mu.Lock()
		defer s.mu.Unlock()
		v := s.lastVariables(pattern)
		v.Silent = true
		return v, nil
	}
	if loss := s.Lost(); loss != nil {
		return Variables{Lost: loss}, nil
	}
	return Variables{Vars: now.Vars, Total: now.Total, Others: now.Others}, err
}

// lastVariables returns the names that were reported last and match the pattern, or none if a reset
// is about to end them. The caller holds mu.
func (s *Session) lastVariables(pattern string) Variables {
	if s.resets() {
		return Variables{Busy: s.turn.job()}
	}
	v := Variables{AsOf: s.asOf, Busy: s.turn.job()}
	for _, name := range s.names {
		if ok, _ := path.Match(notByCaret(pattern), name); ok || pattern == "" {
			v.Vars = append(v.Vars, Variable{Name: name})
		}
	}
	v.Total = len(v.Vars)
	return v
}

// notByBang and notByCaret write a pattern as Python
// (https://docs.python.org/3/library/fnmatch.html) and Go (https://pkg.go.dev/path#Match) do: a
// negated class of characters is [!…] in Python and [^…] in Go.
func notByBang(pattern string) string  { return strings.ReplaceAll(pattern, "[^", "[!") }
func notByCaret(pattern string) string { return strings.ReplaceAll(pattern, "[!", "[^") }

// lastNames returns the names that were reported last.
func (s *Session) lastNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names
}

// holds returns the number of variables as last reported. It counts names with a leading
// underscore, which no list shows.
func (s *Session) holds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names) + s.hidden
}

// A Loss is the death of the worker of an idle session, which no job's receipt reports.
type Loss struct {
	Session string
	Job     string   // the last job of the worker
	How     string   // the exit of the worker: "was killed by SIGKILL"
	Names   []string // the lost variables

	Checkpoints string // says which checkpoints ended with the session; empty: none
}

// Lost returns the death of the session's worker if the session is idle and has started no other
// worker since. Otherwise it returns nil.
func (s *Session) Lost() *Loss {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil || s.w == nil || !s.w.Ended() {
		return nil
	}
	return &Loss{Session: s.name, Job: s.w.LastJob(), How: s.w.ExitText(), Names: s.names}
}

// String says how the worker ended, after which job, and which variables were lost.
func (l *Loss) String() string {
	text := fmt.Sprintf("session %s's Python %s after job %s; %s", l.Session, l.How, l.Job, lostText(l.Names))
	if l.Checkpoints != "" {
		text += "; " + l.Checkpoints
	}
	return text
}

// lostText lists at most lostNames names with lostChars characters together, and counts the others.
const (
	lostNames = 20
	lostChars = 160
)

// lostText says that variables were lost, and which: "variables lost: a, b and 3 more".
func lostText(names []string) string {
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
