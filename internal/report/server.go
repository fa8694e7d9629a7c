package report

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// A ServerStatus is what the engine's parts tell of themselves and of the machine.
type ServerStatus struct {
	Started time.Time
	Works   []string // what does, in a few words each
	Lacks   []string // what does not, and what that means
	Python  string   // which one is used or would be

	Sessions    []SessionStatus // in order
	MaxSessions int

	Processes int            // in all trees
	Memory    int64          // theirs, bytes resident
	Self      int64          // the server's
	Orphans   []jobs.Process // of which it can't be told whose they are

	StateDir string // where long output is kept or would be; empty: it can't be
	Free     int64  // bytes free there; below 0: not known
}

// A SessionStatus is how a Python session stands.
type SessionStatus struct {
	Name   string
	PID    int    // of its worker; 0: none is alive
	Memory int64  // of the worker's tree, bytes resident
	Job    string // the one that it is at; empty: it is idle
	Queued int    // jobs behind that
}

// sessionsMax is how many sessions the reply shows.
const sessionsMax = 20

// A Server is what the reply of server_status is made from.
type Server struct {
	Version   string // of this server
	Workspace string
	Jobs      jobs.Count
	Disk      output.Usage
	ServerStatus
}

// Server is the reply about the server.
func (rp *Reporter) Server(s Server) *Reply {
	r := &Reply{}
	version := fmt.Sprintf("%s (%s, %s/%s), pid %d", s.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, os.Getpid())
	if !s.Started.IsZero() {
		version += ", up " + Duration(rp.time().Sub(s.Started))
	}
	r.Line("Version", version)
	r.Line("Workspace", s.Workspace)
	if len(s.Works) > 0 {
		r.Line("Works", strings.Join(s.Works, "; "))
	}
	for _, lack := range s.Lacks {
		r.Line("Does not work", lack)
	}
	if s.Python != "" {
		r.Line("Python", s.Python)
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
		r.Line("Session", one.String())
	}
	if s.Self > 0 {
		r.Line("Processes", fmt.Sprintf("%s of jobs and sessions, %s; the server itself %s", view.Count(s.Processes), size(s.Memory), size(s.Self)))
	}
	r.disk(s)
	r.Processes("Orphans", s.Orphans, "; of which job can't be told")
	return r
}

// jobCount says how many jobs there are, of the allowed and by status.
func jobCount(c jobs.Count) string {
	now, ended := []string{}, []string{}
	for _, st := range []jobs.Status{jobs.Queued, jobs.Running, jobs.WaitingInput, jobs.Completed, jobs.Failed, jobs.Cancelled} {
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
	if len(now) > 0 {
		s += ": " + strings.Join(now, ", ")
	}
	if len(ended) > 0 {
		s += "; ended: " + strings.Join(ended, ", ")
	}
	return s
}

func (s SessionStatus) String() string {
	text := s.Name
	switch {
	case s.Job != "":
		text += ", busy with job " + s.Job
	case s.PID != 0:
		text += ", idle"
	default:
		text += ", no Python runs"
	}
	if s.Queued > 0 {
		text += fmt.Sprintf(", %d queued", s.Queued)
	}
	if s.PID != 0 {
		text += fmt.Sprintf(", pid %d", s.PID)
	}
	if s.Memory > 0 {
		text += ", " + size(s.Memory)
	}
	return text
}

// disk writes the lines about what is kept on disk.
func (r *Reply) disk(s Server) {
	u := s.Disk
	dir := s.StateDir
	if u.Dir != "" {
		dir = u.Dir
	}
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
		r.Line("Not written to disk", diskFailure(u.Failure)+"; jobs go on, of long output the beginning and the end are kept")
	}
	if s.Jobs.Lossy > 0 {
		r.Line("Disk losses", fmt.Sprintf("%s jobs lost output to a failing disk", view.Count(s.Jobs.Lossy)))
	}
}

// diskFailure returns why output is not written to disk, and names the setting that helps.
func diskFailure(err error) string {
	if errors.Is(err, output.ErrLimit) {
		return "the limit of what all jobs keep on disk is reached (REPL_MAX_STATE), and no job that has ended has any of it"
	}
	return err.Error()
}

// size writes a number of bytes as a person would say it: 812 B, 21.3 MiB.
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
