package overview

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
)

// lineMax bounds the line about a session, in characters.
const lineMax = 600

// A Session is the state of a Python session.
type Session struct {
	Name      string
	Place     string // where the session lives; empty: here
	Where     string // its allocation there: "Slurm job 812, node n2"; empty: it has none, or it is not known
	Made      bool   // a call has made the session with settings, which would be lost with it
	Parent    string // the session that this one is a branch of; empty if it is no branch
	Rerun     string // the job whose state the session reached by running code again; or empty
	PID       int    // the process ID of the session's Python; 0 if no Python runs
	Stopped   bool   // a signal has stopped the session's Python
	Job       string // the running job; empty if no job runs
	Doing     string // the session's other work, such as "a restart"; empty if there is none
	Queued    int    // the number of jobs queued behind Job
	Variables int    // the number of variables, as last reported

	// These count the session's Python and its descendants.
	Processes int
	Threads   int
	Memory    int64 // resident bytes
	CPU       time.Duration

	Jobs   int           // the number of jobs that have ended
	Ran    time.Duration // how long these jobs ran, not counting their time in the queue
	Age    time.Duration // the time since the session was made
	Idle   time.Duration // the time since the last job or, without one, since the session was made
	Python string        // the session's interpreter; empty if unknown
	Dir    string        // the directory in which its Python starts

	MemoryMB int  // the most memory of each process of the session, in MiB; 0: no limit
	Together bool // MemoryMB also bounds the memory of all these processes together
}

// Sessions returns the reply that lists as many sessions as fit into room characters: those here, of which
// there can be limit, and those at places.
func Sessions(list []Session, limit, room int, places []Place) *report.Reply {
	own := len(list)
	list = slices.Clip(list)
	for _, p := range places {
		list = append(list, p.Own()...)
	}
	if len(list)+len(places) == 0 {
		return report.Textf("No sessions yet.")
	}
	var b strings.Builder
	shown := 0
	for _, s := range list {
		line := s.String() + "\n"
		if room -= utf8.RuneCountInString(line); room < 0 {
			break
		}
		b.WriteString(line)
		shown++
	}
	r := &report.Reply{}
	r.Line("Sessions", fmt.Sprintf("%d of at most %d", own, limit))
	for _, p := range places {
		p.lines(r)
	}
	if left := len(list) - shown; left > 0 {
		r.Line("Omitted", view.CountOf(left, "session"))
	}
	r.Body(b.String())
	return r
}

// Branch returns the reply about a new session that continues with the variables of another one,
// and what the two share.
func Branch(s Session, shared []string) *report.Reply {
	r := &report.Reply{}
	r.Line("Session", "new")
	var b strings.Builder
	b.WriteString(s.String() + "\n")
	if len(shared) > 0 {
		fmt.Fprintf(&b, "Shared with %s, so use each of these in one session only:\n", s.Parent)
	}
	for _, what := range shared {
		b.WriteString("  " + report.OneLine(what) + "\n")
	}
	r.Body(b.String())
	return r
}

// String describes the session in one line, for lists of sessions.
func (s Session) String() string {
	parts := s.activity()
	if s.Job == "" && s.Doing == "" {
		parts = append(parts, "idle for "+report.Duration(s.Idle))
	}
	parts = append(parts, view.CountOf(s.Variables, "variable"))
	if s.PID != 0 {
		parts = append(parts, fmt.Sprintf("pid %d", s.PID))
	}
	if s.Processes > 0 {
		parts = append(parts, view.CountOf(s.Threads, "thread")+" in "+view.CountOf(s.Processes, "process"), size(s.Memory), "CPU "+report.Duration(s.CPU))
	}
	parts = append(parts, fmt.Sprintf("%s in %s", view.CountOf(s.Jobs, "job"), report.Duration(s.Ran)), report.Duration(s.Age)+" old")
	if s.Python != "" {
		parts = append(parts, "Python "+s.Python)
	}
	parts = append(parts, "in "+s.Dir)
	if s.MemoryMB > 0 {
		limit := fmt.Sprintf("at most %d MB", s.MemoryMB)
		if !s.Together {
			limit += " a process"
		}
		parts = append(parts, limit)
	}
	if s.Parent != "" {
		parts = append(parts, "branch of "+s.Parent)
	}
	if s.Rerun != "" {
		parts = append(parts, "rerun of job "+s.Rerun)
	}
	return view.Line(strings.Join(parts, ", "), lineMax)
}

// line describes the session in one short line, for the state of the server.
func (s Session) line() string {
	parts := s.activity()
	if s.PID != 0 {
		if s.Job == "" && s.Doing == "" {
			parts = append(parts, "idle")
		}
		parts = append(parts, fmt.Sprintf("pid %d", s.PID))
	}
	if s.Memory > 0 {
		parts = append(parts, size(s.Memory))
	}
	return strings.Join(parts, ", ")
}

// activity returns the name of the session and what it does, unless it is idle.
func (s Session) activity() []string {
	parts := []string{s.Name}
	if s.Place != "" {
		parts = append(parts, at(s.Place, s.Where)[1:])
	}
	switch {
	case s.Job != "":
		parts = append(parts, "busy with job "+s.Job)
	case s.Doing != "":
		parts = append(parts, "busy with "+s.Doing)
	case s.PID == 0:
		parts = append(parts, "no Python runs")
	}
	if s.Stopped {
		parts = append(parts, "stopped by a signal")
	}
	if s.Queued > 0 {
		parts = append(parts, fmt.Sprintf("%d queued", s.Queued))
	}
	return parts
}
