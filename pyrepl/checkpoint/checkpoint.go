// Package checkpoint keeps the newest checkpoints of a tenant's sessions, and remembers for a while
// why the others are gone. The caller decides what a checkpoint consists of, and how a session
// continues from one.
//
// A checkpoint whose process has ended counts as gone from the next call on. Begin with [Set].
package checkpoint

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Max is the most checkpoints of a set.
const Max = 5

// goneMax bounds the ended checkpoints that a set remembers, so that it can say why one is gone.
const goneMax = 20

// Latest stands for the newest checkpoint of a session.
const Latest = "latest"

// A State is the variables of a session as a job left them.
type State interface {
	// Ended says how the process that holds the variables has ended, as "was killed by SIGKILL". It
	// returns "" for a running process.
	Ended() string
	// Memory returns the bytes that the process shares with no other; 0: unknown.
	Memory() int64
	Close()
}

// A Point is a checkpoint.
type Point[S State] struct {
	Owner   any    // the session; it distinguishes sessions of one name
	Session string // the session's name
	Job     string // the job that left the variables so
	Made    time.Time
	State   S
}

// A Gone is a checkpoint that can't be used any more.
type Gone struct {
	Session, Job string
	Made         time.Time
	Why          string
}

// String says why it is gone, or returns "" for nil.
func (g *Gone) String() string {
	if g == nil {
		return ""
	}
	return "the checkpoint of job " + g.Job + " is gone: " + g.Why
}

// A Status describes a checkpoint.
type Status struct {
	Session, Job string
	Made         time.Time
	Memory       int64 // bytes that it shares with no other process; 0: unknown
}

// A Set is the checkpoints of one tenant's sessions. Its methods can be called at the same time.
type Set[S State] struct {
	mu   sync.Mutex
	list []Point[S] // the oldest first
	gone []Gone     // the last goneMax that have ended, in order
}

// List returns the checkpoints, the oldest first.
func (s *Set[S]) List() (list []Status) {
	s.use(func() {
		for _, p := range s.list {
			list = append(list, Status{p.Session, p.Job, p.Made, p.State.Memory()})
		}
	})
	return list
}

// heavy is how many bytes checkpoints hold before it is worth a word.
const heavy = 64 << 20

// Holds says how much memory the checkpoints hold that they share with no other process: "3 hold
// 2.2 GiB". It returns "" if that is little, or unknown.
func (s *Set[S]) Holds() string {
	list, sum := s.List(), int64(0)
	for _, c := range list {
		sum += c.Memory
	}
	verb := "hold"
	if len(list) == 1 {
		verb = "holds"
	}
	switch {
	case sum < heavy:
		return ""
	case sum < 1<<30:
		return fmt.Sprintf("%d %s %d MiB", len(list), verb, sum>>20)
	}
	return fmt.Sprintf("%d %s %.1f GiB", len(list), verb, float64(sum)/(1<<30))
}

// Newest returns the job of a session's newest checkpoint, or "" if the session has none.
func (s *Set[S]) Newest(owner any) (job string) {
	s.use(func() {
		if jobs := s.jobs(owner); jobs != nil {
			job = jobs[len(jobs)-1]
		}
	})
	return job
}

// Has reports whether a session has checkpoints.
func (s *Set[S]) Has(owner any) (has bool) {
	s.use(func() { has = s.jobs(owner) != nil })
	return has
}

// Dropped says which checkpoints end with a session. It returns "" if the session has none.
func (s *Set[S]) Dropped(owner any) (text string) {
	s.use(func() {
		if jobs := s.jobs(owner); jobs != nil {
			text = "checkpoints dropped: " + strings.Join(jobs, ", ")
		}
	})
	return text
}

// Add keeps a checkpoint. If the set then has more than [Max], it drops the oldest one and returns
// it.
func (s *Set[S]) Add(p Point[S]) (dropped *Gone) {
	s.use(func() { s.list = append(s.list, p) })
	s.remove(func(p Point[S]) string {
		if dropped != nil || len(s.list) <= Max {
			return ""
		}
		dropped = &Gone{p.Session, p.Job, p.Made, fmt.Sprintf("it was dropped for a newer one, of which %d are kept", Max)}
		return dropped.Why
	})
	return dropped
}

// Drop ends all checkpoints of a session.
func (s *Set[S]) Drop(owner any) {
	s.remove(func(p Point[S]) string {
		if p.Owner == owner {
			return "it was dropped with its session"
		}
		return ""
	})
}

// A MissingError says that a session has no such checkpoint, and names those that it has.
type MissingError struct {
	Gone  *Gone  // the checkpoint that was there; nil: the set remembers none
	Other string // the session that the checkpoint is one of; empty: none
	None  bool   // the session has no checkpoint, and the set remembers none that was asked for
	text  string
}

func (e *MissingError) Error() string { return e.text }

// Find returns the checkpoint of a session after a job, or its latest if job is [Latest]. If a
// later one than the returned has ended, newer describes it. The error is a [*MissingError].
func (s *Set[S]) Find(owner any, session, job string) (p Point[S], newer *Gone, err error) {
	s.use(func() {
		i := len(s.list) - 1
		for i >= 0 && !(s.list[i].Owner == owner && (job == Latest || job == s.list[i].Job)) {
			i--
		}
		g := s.lookUp(session, job)
		switch {
		case i < 0:
			err = s.missing(owner, session, job, g)
			return
		case job == Latest && g != nil && g.Made.After(s.list[i].Made):
			newer = g
		}
		p = s.list[i]
	})
	return p, newer, err
}

// missing returns the error about a checkpoint that a session does not have. g describes the
// checkpoint if it has ended, else it is nil. The caller holds mu.
func (s *Set[S]) missing(owner any, session, job string, g *Gone) error {
	for _, p := range s.list {
		if p.Job == job {
			return &MissingError{Other: p.Session, text: "the checkpoint of job " + job + " is one of session " + p.Session + ", not of " + session}
		}
	}
	text, there := "session "+session+" has no checkpoint", s.jobs(owner)
	switch {
	case g != nil:
		text = g.String()
	case len(there) == 0:
		return &MissingError{None: true, text: text}
	default:
		text += " of job " + job
	}
	if len(there) > 0 {
		text += "; there are those of " + strings.Join(there, ", ")
	}
	return &MissingError{Gone: g, text: text}
}

// use drops the checkpoints whose process has ended and then calls f with mu held.
func (s *Set[S]) use(f func()) {
	s.remove(func(p Point[S]) string {
		if how := p.State.Ended(); how != "" {
			return "its process " + how
		}
		return ""
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// remove ends the checkpoints for which why returns a reason. It calls why with mu held.
func (s *Set[S]) remove(why func(p Point[S]) string) {
	s.mu.Lock()
	var rest, ended []Point[S]
	for _, p := range s.list {
		if reason := why(p); reason != "" {
			ended = append(ended, p)
			s.gone = append(s.gone, Gone{p.Session, p.Job, p.Made, reason})
		} else {
			rest = append(rest, p)
		}
	}
	s.list = rest
	s.gone = slices.Clone(s.gone[max(0, len(s.gone)-goneMax):])
	s.mu.Unlock()
	for _, p := range ended {
		p.State.Close()
	}
}

// jobs returns the jobs of the checkpoints of a session, the oldest first. The caller holds mu.
func (s *Set[S]) jobs(owner any) (jobs []string) {
	for _, p := range s.list {
		if p.Owner == owner {
			jobs = append(jobs, p.Job)
		}
	}
	return jobs
}

// lookUp returns the checkpoint of a session after a job, or its latest one, if that is gone. The
// caller holds mu.
func (s *Set[S]) lookUp(session, job string) (found *Gone) {
	for _, g := range s.gone {
		if g.Session == session && (job == g.Job || job == Latest && (found == nil || g.Made.After(found.Made))) {
			found = &g
		}
	}
	return found
}
