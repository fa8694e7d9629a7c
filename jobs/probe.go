package jobs

import "time"

// A Probe measures the processes of a running job, wherever they run. Its methods can be called by
// several goroutines at once, and after the job has ended; then they return an error.
type Probe interface {
	// Usage returns the present use by the processes.
	Usage() (ProcessUsage, error)
	// Busiest returns the process that uses most CPU time now, and its share of one CPU in percent.
	// It can take some milliseconds.
	Busiest() (p Process, percent float64, err error)
	// Waits says what a process, or the leading one if pid is 0, waits for, in words that follow its
	// name, and for how long it has done so. The words are "" if it runs, or if that is not known, and
	// the time is 0 if it is not known.
	Waits(pid int) (p Process, words string, since time.Duration)
	// Stopped returns the processes that a signal has stopped. After an error some may be missing.
	Stopped() ([]StoppedProcess, error)
}

// A StoppedProcess is a process that a signal has stopped and that has not been continued.
type StoppedProcess struct {
	Process
	Signal string // the signal, such as SIGSTOP; empty: unknown
}

// A Listener is an address on which a process of a job listens.
type Listener struct {
	Address string `json:"address"` // 127.0.0.1:8000
	Process
}

// A ProcessUsage is the use of CPU time and memory by processes.
type ProcessUsage struct {
	CPU       time.Duration // the time that the living ones have used since they were started
	Memory    int64         // bytes resident; memory shared by several counts for each
	Processes int
}
