package jobs

import (
	"slices"

	"asyncrepl/internal/text/view"
)

// Denied are connections that a proxy has refused the processes of a job.
type Denied struct {
	First []Denial `json:"first,omitempty"` // the first three that differ in target or program
	More  int      `json:"more,omitempty"`  // the number of connections that First does not count
}

// deniedKept bounds Denied.First: a program can ask for a thousand hosts.
const deniedKept = 3

// A Denial is a target that a proxy has refused a program.
type Denial struct {
	Target  string `json:"target"` // one line: "CONNECT evil.example:443"
	Process        // the process that has asked for it first; zero: unknown
	Times   int    `json:"times"`
}

func (d Denial) String() string {
	s := d.Target
	if d.Process != (Process{}) {
		s += " by " + d.Process.String()
	}
	if d.Times > 1 {
		s += ", " + view.Count(d.Times) + " times"
	}
	return s
}

// Add counts a connection to target that was refused p, and reports whether that is one of the First. It
// changes no copy of d.
func (d *Denied) Add(target string, p Process) (first bool) {
	i := slices.IndexFunc(d.First, func(x Denial) bool { return x.Target == target && x.Program == p.Program })
	switch {
	case i >= 0:
		d.First = slices.Clone(d.First)
		d.First[i].Times++
	case len(d.First) < deniedKept:
		d.First = append(d.First, Denial{target, p, 1}) // no copy sees it
		return true
	default:
		d.More++
	}
	return false
}

// Deny records that a proxy has refused p, a process of the job, a connection to target. It reports whether
// it did: it does not if the job has ended.
func (j *Job) Deny(target string, p Process) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.record.Status.Final() {
		return false
	}
	if j.record.Denied.Add(target, p) {
		j.notify()
	}
	return true
}
