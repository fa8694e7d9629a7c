// Package overview describes a server and its sessions in the replies of server_status,
// list_sessions and create_session. The engine counts, this package puts the counts into words, and
// the tools send the replies.
package overview

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// sessionsMax is the most sessions that a reply shows.
const sessionsMax = 20

// A Server is the state of a server as the reply to server_status shows it.
type Server struct {
	Version   string // the program's version
	PID       int    // the process by which others know the server
	Started   time.Time
	Workspace string
	Page      string // where a person can watch and answer jobs; empty: nowhere
	Places    []Place

	Sandbox     string      // what jobs can reach; empty: there is no sandbox
	Unprotected []string    // the files that it protects no more, a line for each
	Removed     []string    // the names of the variables that it leaves out
	Denied      jobs.Denied // the connections of no job that it has refused

	Works  []string // available features, in a few words each
	Lacks  []string // unavailable features, each with the consequence
	NoPip  error    // why the server gives jobs no program pip; nil if it gives them one
	Python string   // the interpreter that is used or would be
	Search string   // the PATH on which the server looks for python3 and uv, in words

	Jobs        jobs.Count
	Sessions    []Session // sorted by name
	MaxSessions int
	Checkpoints []Checkpoint // the checkpoints of all Sessions, the oldest first
	Shells      []Shell      // sorted by name

	Processes int            // the number of processes in all trees
	Memory    int64          // resident bytes of these processes
	Self      int64          // resident bytes of the server itself
	Orphans   []jobs.Process // processes whose job is unknown

	Disk     output.Usage
	StateDir string // the directory for long output, which need not exist yet; empty if none
	Free     int64  // bytes free in StateDir; negative if unknown
	Records  Records
}

// Records says where jobs are recorded, and what keeps them from being written or read.
type Records struct {
	Off     bool   // a setting turns records off
	Dir     string // empty: unknown
	Failure error  // why the last record was not written; nil: it was
	Unread  error  // why records of an earlier server could not be read; nil: all could
}

// A Checkpoint is a session's variables as a job left them.
type Checkpoint struct {
	Session, Job string
	Made         time.Time
	Memory       int64 // bytes that the checkpoint's process shares with no other; 0 if unknown
}

// A Shell is the state of a shell session.
type Shell struct {
	Name, Dir string
	Idle      time.Time // the time at which the shell became idle; zero while a command runs
}

// Reply returns the reply about the server.
func (s Server) Reply() *report.Reply {
	r := &report.Reply{}
	version := fmt.Sprintf("%s (%s, %s/%s), pid %d", s.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, s.PID)
	if !s.Started.IsZero() {
		version += ", up " + report.Duration(time.Since(s.Started))
	}
	r.Line("Version", version)
	r.Line("Workspace", s.Workspace)
	if s.Page != "" {
		r.Line("Page", s.Page)
	}
	for _, p := range s.Places {
		p.lines(r)
	}
	s.sandbox(r)
	if len(s.Works) > 0 {
		r.Line("Works", strings.Join(s.Works, "; "))
	}
	for _, lack := range s.Lacks {
		r.Line("Does not work", lack)
	}
	if s.NoPip != nil {
		r.Line("Does not work", fmt.Sprintf("jobs have no program pip of their own (%v): install with install_package_async", s.NoPip))
	}
	if s.Python != "" {
		r.Line("Python", s.Python)
	}
	if s.Search != "" {
		r.Line("Searched", s.Search)
	}
	r.Line("Jobs", jobCount(s.Jobs))
	if s.MaxSessions > 0 {
		r.Line("Sessions", fmt.Sprintf("%d of at most %d", len(s.Sessions), s.MaxSessions))
	}
	for i, one := range s.Sessions {
		if i == sessionsMax {
			r.Line("Session", fmt.Sprintf("%d more", len(s.Sessions)-i))
			break
		}
		r.Line("Session", one.line())
	}
	for _, c := range s.Checkpoints {
		text := fmt.Sprintf("session %s after job %s, %s old", c.Session, c.Job, report.Duration(time.Since(c.Made)))
		if c.Memory > 0 {
			text += ", " + size(c.Memory) + " of its own"
		}
		r.Line("Checkpoint", text)
	}
	s.shells(r)
	if s.Self > 0 {
		r.Line("Processes", fmt.Sprintf("%s of jobs and sessions, %s; the server itself %s", view.Count(s.Processes), size(s.Memory), size(s.Self)))
	}
	s.disk(r)
	s.records(r)
	r.Processes("Orphans", s.Orphans, "; their job is unknown")
	return r
}

// sandbox writes the lines about the sandbox.
func (s Server) sandbox(r *report.Reply) {
	if s.Sandbox == "" {
		return
	}
	r.Line("Sandbox", s.Sandbox)
	for _, line := range s.Unprotected {
		r.Line("Sandbox", line)
	}
	names := ""
	for i, name := range s.Removed {
		if names += name; i+1 < len(s.Removed) && len(names)+len(s.Removed[i+1]) < namesMax {
			names += ", "
			continue
		}
		r.Line("Left out", names+" (REPL_SANDBOX_ENV passes them)")
		names = ""
	}
	r.Denied(s.Denied, "; of no job that runs")
}

// namesMax bounds the names of variables in a line, in bytes. The next line has more.
const namesMax = 250

// shells writes the lines about shell sessions.
func (s Server) shells(r *report.Reply) {
	for i, one := range s.Shells {
		if i == sessionsMax {
			r.Line("Shell session", fmt.Sprintf("%d more", len(s.Shells)-i))
			break
		}
		state := "busy"
		if !one.Idle.IsZero() {
			state = "idle for " + report.Duration(time.Since(one.Idle))
		}
		r.Line("Shell session", fmt.Sprintf("%s, in %s, %s", one.Name, report.OneLine(one.Dir), state))
	}
}

// jobCount returns how many jobs run, the limit, and how many have each status.
func jobCount(c jobs.Count) string {
	now, ended := []string{}, []string{}
	for _, st := range jobs.Statuses {
		if n := c.By[st]; n > 0 {
			item := fmt.Sprintf("%s %s", view.Count(n), st)
			if st.Final() {
				ended = append(ended, item)
			} else {
				now = append(now, item)
			}
		}
	}
	s := fmt.Sprintf("%s of at most %s at once", view.Count(c.Running), view.Count(c.Max))
	if c.There > 0 {
		s += fmt.Sprintf(", and %s at places", view.Count(c.There))
	}
	if len(now) > 0 {
		s += ": " + strings.Join(now, ", ")
	}
	if len(ended) > 0 {
		s += "; ended: " + strings.Join(ended, ", ")
	}
	return s
}

// disk writes the lines about output on disk.
func (s Server) disk(r *report.Reply) {
	u := s.Disk
	dir := cmp.Or(s.StateDir, u.Dir)
	if dir == "" {
		return
	}
	text := size(u.Bytes)
	if u.Limit > 0 {
		text += " of at most " + size(u.Limit)
	}
	text += " of output in " + dir
	if s.Free >= 0 {
		text += ", " + size(s.Free) + " free"
	}
	r.Line("Disk", text)
	if u.Failure != nil {
		why := u.Failure.Error()
		if errors.Is(u.Failure, output.ErrLimit) {
			why += " (REPL_MAX_STATE), and no job that has ended uses any of it"
		}
		r.Line("Not written to disk", why+"; jobs continue, and of long output the beginning and the end are kept")
	}
	if s.Jobs.Lossy > 0 {
		r.Line("Disk losses", view.CountOf(s.Jobs.Lossy, "job")+" lost output to a failing disk")
	}
}

// records writes the lines about the records of jobs.
func (s Server) records(r *report.Reply) {
	if s.Records.Off {
		r.Line("Records", "off (REPL_HISTORY=0): when the server ends, its jobs can't be read any more")
	}
	if s.Records.Dir == "" {
		return
	}
	r.Line("Records", "of jobs, for later servers in this workspace: "+s.Records.Dir)
	if err := s.Records.Failure; err != nil {
		r.Line("Not recorded", err.Error()+"; jobs continue, and are recorded again when that is fixed")
	}
	if err := s.Records.Unread; err != nil {
		r.Line("Not read", err.Error())
	}
}

// size returns a number of bytes in few characters: 812 B, 21.3 MiB.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n), -1
	for v >= unit && i < 4 {
		v /= unit
		i++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTP"[i])
}
