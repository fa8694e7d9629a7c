package overview

import (
	"fmt"
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
	Parent    string // the session that it is a branch of; empty: none
	Rerun     string // the job whose state it came to by running the code again; empty: none
	PID       int    // of its Python; 0: there is none
	Stopped   bool   // a signal has stopped its Python
	Job       string // the running one; empty: none
	Doing     string // what else the session is busy with, such as "a restart"; empty: nothing
	Queued    int    // jobs queued after it
	Variables int    // names, as last reported

	Processes int           // its Python and the descendants of that
	Threads   int           // of these processes
	Memory    int64         // of these processes: bytes resident
	CPU       time.Duration // that these processes have used

	Jobs   int           // that have ended
	Ran    time.Duration // of these jobs, without their time in the queue
	Age    time.Duration // since it was made
	Idle   time.Duration // since its last job or, if it had none, since it was made
	Python string        // its interpreter; empty: unknown
	Dir    string        // where its Python starts

	MemoryMB int  // the most memory that each of its processes can use, in MiB; 0: no limit
	Together bool // the most that all of them can use together, too
}

// Sessions returns the list of sessions, of which limit are allowed, as many as fit into room
// characters.
func Sessions(list []Session, limit, room int) *report.Reply {
	if len(list) == 0 {
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
	r.Line("Sessions", fmt.Sprintf("%d of at most %d", len(list), limit))
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
