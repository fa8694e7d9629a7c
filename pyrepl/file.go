package pyrepl

import (
	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// A File is a script or a notebook, and what it finds in sys.argv[1:].
type File = worker.File

// ExecFile returns the runner of a file, which waits for its turn in the session.
func (s *Session) ExecFile(f File) jobs.Runner {
	return &exec{s: s, work: worker.Work{Path: f.Path, Args: f.Args}}
}
