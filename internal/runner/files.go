//go:build unix

package runner

import (
	"fmt"
	"os"
	"time"

	"asyncrepl/internal/kernel/changes"
	"asyncrepl/internal/process"
	"asyncrepl/jobs"
)

// filesAfter is the least time that a job must run for a search of its files. Without it the
// search, which takes up to 20 ms, would slow down every short command.
const filesAfter = 100 * time.Millisecond

// A Stopwatch knows when a job began.
type Stopwatch struct {
	began time.Time
	from  changes.Moment
}

// Begin starts a stopwatch. It is called before the job can write its first file.
func Begin() Stopwatch { return Stopwatch{time.Now(), changes.Now()} }

// Files returns the files below dir that were made or changed since the job began, or none for a
// job shorter than filesAfter. The search takes 20 ms at most, and a few system calls more.
func (s Stopwatch) Files(dir string) jobs.FileChange {
	if time.Since(s.began) < filesAfter {
		return jobs.FileChange{}
	}
	return jobs.FileChange(changes.Since(dir, s.from))
}

// Dir returns the directory that a process is in, or that it was started in if it has ended or the
// system does not say.
func Dir(h *process.Handle, started string) string {
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", h.PID())); err == nil && !Ended(h) {
		return dir
	}
	return started
}
