package pyrepl

import (
	"strings"

	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// cause returns the cause of a failure that a client can fix, and the module or line it is about.
func (r *run) cause(done worker.DoneEvent) (jobs.Cause, string) {
	switch cause := jobs.Cause(done.Hint); cause {
	case jobs.NoModule:
		name, _, _ := strings.Cut(done.Subject, ".")
		if worker.HasModule(r.s.cfg.Dir, name) {
			return "", "" // a module of the user's, on another path
		}
		return cause, done.Subject
	case jobs.NoPython:
		return cause, done.Subject
	}
	return "", ""
}
