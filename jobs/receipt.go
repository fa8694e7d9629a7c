package jobs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"asyncrepl/internal/output"
)

// An End says how a job came to its end.
type End string

// The ends of a job.
const (
	Returned    End = "returned"      // Python code ran to its end
	Exited      End = "exited"        // with Receipt.Code
	Signaled    End = "signaled"      // with Receipt.Signal
	Alive       End = "alive"         // it could not be ended, and is one of the Survivors
	Raised      End = "raised"        // an exception, in Receipt.Detail
	OutOfMemory End = "out of memory" // on the kernel's or the interpreter's word only
	NotStarted  End = "not started"   // why, in Receipt.Detail
	NotRun      End = "not run"       // why, in Receipt.Detail
	Internal    End = "internal"      // a defect of this server, in Receipt.Detail
)

// A State says what became of the variables of a job's session; a job outside
// any session has none.
type State string

// What can have become of variables.
const (
	Kept State = "variables kept"
	Lost State = "variables lost"
)

// A Process names a process in a receipt.
type Process struct {
	PID     int
	Program string
}

// SysExit is the Detail of an [Exited] job whose code left by sys.exit while
// its interpreter lives on.
const SysExit = "sys.exit"

// A Receipt is the record of how a job ended.
type Receipt struct {
	End    End
	Code   int    // exit code of an Exited job
	Signal string // name of the signal of a Signaled job: "SIGSEGV"
	Detail string // one line more: "ValueError: bad literal"

	// Stop is set by the runner where a stop brought the end about. A job that
	// finished anyway has none.
	Stop  *Stop
	By    By            // who ended it; if empty, what End and Stop tell
	Rungs []Rung        // those that the job needed, from the mildest
	Rest  []Rung        // above those, that what it had started needed after its end
	State State         // what became of the session's variables
	Limit time.Duration // the timeout that was reached

	HungUp    []Process // ended by the hangup when the leader exited
	Left      []Process // running on after the end
	Survivors []Process // could not be ended
	Unclaimed []Process // may belong to this job or to another

	Lost output.Loss // of the job's output, by its end

	PendingTasks int      // asyncio tasks that wait for the session's next await
	Notes        []string // what else there is to know, one line each
}

// Status returns the final status that the receipt amounts to.
func (r Receipt) Status() Status {
	switch {
	case r.Stop != nil && r.Stop.By == Limit:
		return Failed
	case r.Stop != nil:
		return Cancelled
	case r.End == Returned:
		return Completed
	case r.End == Exited && r.Code == 0 && !r.workerDied():
		return Completed
	}
	return Failed
}

// workerDied tells the exit of a session's worker, which takes the variables
// along, from that of a command.
func (r Receipt) workerDied() bool { return r.End == Exited && r.State == Lost }

// Text returns status and end in the words that replies use:
// "failed (killed by SIGSEGV; variables lost)".
func (r Receipt) Text() string {
	var parts []string
	if how := r.how(); how != "" {
		parts = append(parts, how)
	}
	// Variables that are kept go without saying, but for ends that make one doubt.
	if r.State == Lost || r.State == Kept && (r.Stop != nil || r.End == OutOfMemory) {
		parts = append(parts, string(r.State))
	}
	if len(parts) == 0 {
		return string(r.Status())
	}
	return string(r.Status()) + " (" + strings.Join(parts, "; ") + ")"
}

// how returns the part of Text that is not about variables.
func (r Receipt) how() string {
	if r.Stop != nil && r.Stop.By == Limit {
		how := "timed out after " + brief(r.Limit)
		if r.End == Alive {
			how += "; could not be ended"
		}
		return how
	}
	if r.Stop != nil {
		return r.stopped()
	}
	switch r.End {
	case Returned:
		return ""
	case Exited:
		switch {
		case r.workerDied():
			return withDetail("process exited "+strconv.Itoa(r.Code), r.Detail)
		case r.Detail == SysExit:
			return "exit " + strconv.Itoa(r.Code)
		case r.Code == 0:
			return r.Detail
		}
		return withDetail("exit "+strconv.Itoa(r.Code), r.Detail)
	case Signaled:
		return withDetail("killed by "+r.Signal, r.Detail)
	case Raised:
		if r.Detail == "" {
			return "exception"
		}
		return r.Detail
	case OutOfMemory:
		return withDetail("out of memory", r.Detail)
	case Alive:
		return withDetail("could not be ended", r.Detail)
	case NotStarted:
		return withDetail("could not start", r.Detail)
	case NotRun:
		return withDetail("not run", r.Detail)
	}
	return "internal error" // its detail is for the server's log
}

// stopped says by which rung, and by whom where it was not the agent's cancel.
func (r Receipt) stopped() string {
	var last Rung
	for _, rung := range r.Rungs {
		if rung.Above(last) {
			last = rung
		}
	}
	how := map[Rung]string{"": "stopped", Interrupt: "interrupted", Terminate: "terminated", Kill: "killed"}[last]
	if last == "" && r.End == NotRun {
		how = "before it ran"
	}
	if r.End == Alive {
		how = "could not be ended"
	}
	switch {
	case r.Stop.Reason != "":
		how += " by " + r.Stop.Reason
	case r.Stop.By != Agent && r.Stop.By != "":
		how += " by " + string(r.Stop.By)
	}
	return how
}

func withDetail(what, detail string) string {
	if detail == "" {
		return what
	}
	return what + ": " + detail
}

// brief writes whole minutes and hours without their zero seconds.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (p Process) String() string { return fmt.Sprintf("%s (pid %d)", p.Program, p.PID) }

// settle fills in what follows from the rest and from the job's own timeout.
func (r *Receipt) settle(timeout time.Duration) {
	if r.Stop != nil && r.Stop.By == Limit && r.Limit == 0 {
		r.Limit = timeout
	}
	if r.By != "" {
		return
	}
	switch {
	case r.Stop != nil:
		r.By = r.Stop.By
	case r.End == Returned, r.End == Exited, r.End == Raised:
		r.By = Program
	default:
		r.By = Unknown
	}
}
