//go:build unix

package runner

import (
	"asyncrepl/internal/kernel/listening"
	"asyncrepl/jobs"
)

// ReportPorts returns a function that reports the ports of its processes to p's job.
func ReportPorts(p *jobs.Port) func([]listening.Port) {
	return func(ports []listening.Port) {
		var ls []jobs.Listener
		for _, port := range ports {
			ls = append(ls, jobs.Listener{
				Address: port.Addr.String(),
				Process: jobs.Process{PID: port.Process.PID, Program: port.Process.Program},
			})
		}
		p.SetListening(ls)
	}
}
