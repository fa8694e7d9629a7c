//go:build unix

package runner

import (
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/threads"
	"asyncrepl/internal/process"
	"asyncrepl/jobs"
)

// Probe returns a probe of the tree that h leads.
func Probe(h *process.Handle) jobs.Probe { return probe{h} }

type probe struct{ h *process.Handle }

func (p probe) Usage() (jobs.ProcessUsage, error) {
	u, err := p.h.Usage()
	return jobs.ProcessUsage{CPU: u.CPU, Memory: u.Memory, Processes: u.Processes}, err
}

func (p probe) Stopped() (stopped []jobs.StoppedProcess, err error) {
	es, err := p.h.Stopped()
	for _, e := range es {
		s := jobs.StoppedProcess{Process: jobs.Process{PID: e.PID, Program: e.Program}}
		if e.StopSignal != 0 {
			s.Signal = SignalName(e.StopSignal)
		}
		stopped = append(stopped, s)
	}
	return stopped, err
}

func (p probe) Waits(pid int) (q jobs.Process, words string, since time.Duration) {
	if pid == 0 {
		pid = p.h.PID()
	}
	s, err := procfs.Inspect(pid)
	if err != nil {
		return jobs.Process{PID: pid}, "", 0
	}
	words, since = threads.Blocked(pid)
	return jobs.Process{PID: pid, Program: s.Program}, words, since
}

func (p probe) Busiest() (jobs.Process, float64, error) {
	q, percent, err := p.h.Busiest()
	return jobs.Process{PID: q.PID, Program: q.Program}, percent, err
}
