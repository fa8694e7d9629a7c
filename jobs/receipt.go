package jobs

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"asyncrepl/internal/output"
)

// An End says how a job ended.
type End string

// The ends of a job.
const (
	Returned    End = "returned"      // Python code ran to its end
	Exited      End = "exited"        // Receipt.Code has its status
	Signaled    End = "signaled"      // Receipt.Signal names the signal
	Alive       End = "alive"         // it could not be ended, and is one of the Survivors
	Raised      End = "raised"        // an exception, in Receipt.Detail
	OutOfMemory End = "out of memory" // the kernel or the interpreter said so
	NotStarted  End = "not started"   // Receipt.Detail says why
	NotRun      End = "not run"       // Receipt.Detail says why
	Internal    End = "internal"      // a defect of this server, in Receipt.Detail
	ServerEnded End = "server ended"  // its server was killed, or exited before it had ended the job
	LeftThere   End = "left there"    // its server ended, and its place continued it or ended it later
	PlaceLost   End = "place lost"    // its place is gone, or the job was given up; Receipt.Detail is all that Text says
	Misreported End = "misreported"   // its place reported an end that makes no sense; Receipt.Detail says why
)

// A State is the state of the session's variables after a job. It is empty for a job without a
// session.
type State string

// The states of variables.
const (
	Kept State = "variables kept"
	Lost State = "variables lost"
)

// A Process names a process in a receipt.
type Process struct {
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

func (p Process) String() string { return fmt.Sprintf("%s (pid %d)", p.Program, p.PID) }

// A Cause is the reason why a job could not start, or has failed, if a client can change it. Front
// ends say how.
type Cause string

// The causes.
const (
	NoTerminal  Cause = "no terminal"  // no terminal can be opened
	NoDirectory Cause = "no directory" // the job's directory does not exist
	NoModule    Cause = "no module"    // the module Receipt.Subject is not installed
	NoPython    Cause = "no python"    // the line Receipt.Subject is a command of IPython
	OtherPip    Cause = "other pip"    // a pip of another Python than the sessions' refused to run

	OpenQuestion Cause = "open question" // the job before it in the session waits for an answer
	NoQuestions  Cause = "no questions"  // it asked for input, and a job of its kind gets none
)

// A NameChange is a change of the set of names that a session's variables have. New and Gone hold
// the first names of each; the counts cover all.
type NameChange struct {
	New       []string `json:"new,omitempty"`
	Gone      []string `json:"gone,omitempty"`
	NewCount  int      `json:"new_count,omitempty"`
	GoneCount int      `json:"gone_count,omitempty"`
}

// A FileChange names files that were made or changed while a job ran, by it or by something else.
// New and Changed hold the first paths of each; the counts cover all that were found.
type FileChange struct {
	New          []string `json:"new,omitempty"`
	Changed      []string `json:"changed,omitempty"`
	NewCount     int      `json:"new_count,omitempty"`
	ChangedCount int      `json:"changed_count,omitempty"`
	Partial      bool     `json:"partial,omitempty"` // not all files were checked
}

// SysExit is the Detail of an [Exited] job whose code called sys.exit, which did not end the
// interpreter.
const SysExit = "sys.exit"

// A Receipt is the record of how a job ended.
type Receipt struct {
	End    End    `json:"end"`
	Code   int    `json:"exit_code,omitempty"` // the exit status of an Exited job
	Signal string `json:"signal,omitempty"`    // the name of the signal of a Signaled job: "SIGSEGV"
	Detail string `json:"detail,omitempty"`    // one line more: "ValueError: bad literal"
	Cause  Cause  `json:"cause,omitempty"`     // empty: none of those listed

	Subject string `json:"subject,omitempty"` // the module or the line that the Cause is about

	// Exception is the exception that Detail names. It is nil if there is none, or if only Detail
	// is known of it.
	Exception *Exception `json:"error,omitempty"`

	// Stop is set by the runner if a stop caused the end. It stays nil if the job finished or
	// failed by itself: otherwise a client would repeat work that is done.
	Stop *Stop `json:"stop,omitempty"`
	// By can be left empty by the runner: it then follows from End and Stop.
	By By `json:"by,omitempty"`
	// Rungs has the rungs tried on the job, from the lowest, even if the job ended by itself. Rest
	// has the higher rungs that its remaining processes needed after its end.
	Rungs []Rung        `json:"rungs,omitempty"`
	Rest  []Rung        `json:"rest,omitempty"`
	State State         `json:"state,omitempty"`    // the state of the session's variables
	Limit time.Duration `json:"limit_ns,omitempty"` // the timeout that was reached

	HungUp    []Process `json:"hung_up,omitempty"`      // ended by the hangup at the leader's exit
	Left      []Process `json:"left_running,omitempty"` // still running after the end
	Survivors []Process `json:"survivors,omitempty"`    // could not be ended
	Unclaimed []Process `json:"unclaimed,omitempty"`    // belong to this job or to another

	Names NameChange `json:"names,omitzero"` // the variables that the job has made or removed

	Files FileChange `json:"files,omitzero"` // files below the working directory

	// Checkpoint is "kept" or says why the checkpoint that was asked for was not kept. It is empty
	// if none was asked for.
	Checkpoint string `json:"checkpoint,omitempty"`

	LostOutput output.Loss `json:"lost_output,omitzero"` // the output lost before the job's end

	// PendingTasks counts the asyncio tasks that wait for the session's next await.
	PendingTasks int `json:"pending_tasks,omitempty"`
	// LoopServers are the addresses of servers that the job has left to the session's event loop.
	LoopServers []string `json:"loop_servers,omitempty"`
	Notes       []string `json:"notes,omitempty"` // anything else to know, one line each

	// Unknown holds the fields that a newer version of this program wrote, as [Record.Unknown] does.
	Unknown map[string]json.RawMessage `json:"-"`
}

// MarshalJSON writes the receipt with its unknown fields.
func (r Receipt) MarshalJSON() ([]byte, error) {
	type plain Receipt // has no methods
	return marshalWith(plain(r), r.Unknown)
}

// UnmarshalJSON reads a receipt, of a newer version, too.
func (r *Receipt) UnmarshalJSON(b []byte) (err error) {
	type plain Receipt
	r.Unknown, err = unmarshalKnown(b, (*plain)(r))
	return err
}

// Status returns the final status that follows from the receipt.
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

// workerDied reports whether a session's worker exited, which loses the variables. If it did not,
// an Exited job is a command, or code that called sys.exit.
func (r Receipt) workerDied() bool { return r.End == Exited && r.State == Lost && r.Detail != SysExit }

// Text returns status and end in the words that replies use, for example "failed (killed by
// SIGSEGV; variables lost)".
func (r Receipt) Text() string {
	var parts []string
	if how := strings.TrimSpace(r.how() + " " + r.after()); how != "" {
		parts = append(parts, how)
	}
	// That variables are kept is only said of ends after which they might not be.
	if r.State == Lost || r.State == Kept && (r.Stop != nil || r.End == OutOfMemory || r.End == Exited) {
		parts = append(parts, string(r.State))
	}
	if len(parts) == 0 {
		return string(r.Status())
	}
	return string(r.Status()) + " (" + strings.Join(parts, "; ") + ")"
}

// resisted reports whether the job was asked to stop and ended by itself.
func (r Receipt) resisted() bool {
	switch r.End {
	case Returned, Exited, Raised, OutOfMemory:
		return len(r.Rungs) > 0 && r.Stop == nil
	}
	return false
}

// after returns after which timeout or rung a job ended in its own way: "after an interrupt". For
// other jobs it returns "".
func (r Receipt) after() string {
	switch {
	case !r.resisted():
		return ""
	case r.Limit > 0:
		return "after a timeout of " + brief(r.Limit)
	}
	return map[Rung]string{Interrupt: "after an interrupt", Terminate: "after a termination", Kill: "after a kill"}[highest(r.Rungs)]
}

// highest returns the highest of some rungs, or "".
func highest(rungs []Rung) (last Rung) {
	for _, rung := range rungs {
		if rung.Above(last) {
			last = rung
		}
	}
	return last
}

// endTexts are the words for ends to which a detail is added.
var endTexts = map[End]string{
	Signaled:    "killed by",
	OutOfMemory: "out of memory",
	Alive:       "could not be ended",
	NotStarted:  "could not start",
	NotRun:      "not run",
	ServerEnded: "server was killed",
	LeftThere:   "left to its place when its server ended; whether it has ended is unknown",
	Misreported: "its place reported an end that can't be",
}

// Unseen reports whether the job was at a place that has not reported how it ended. It can still run there.
func (r Receipt) Unseen() bool { return r.End == PlaceLost || r.End == LeftThere }

// how returns the end in words, without the part of Text about variables.
func (r Receipt) how() string {
	switch {
	case r.End == PlaceLost:
		return r.Detail
	case r.End == LeftThere:
		return endTexts[r.End]
	case r.Stop != nil && r.Stop.By == Limit:
		return r.timedOut()
	case r.Stop != nil:
		return r.stopped()
	case r.End == Returned:
		return ""
	case r.End == Exited:
		return r.exited()
	case r.End == Raised && r.Detail == "":
		return "exception"
	case r.End == Raised:
		return r.Detail
	case r.End == Signaled:
		return withDetail(endTexts[r.End]+" "+r.Signal, r.Detail)
	}
	text, ok := endTexts[r.End]
	if !ok {
		return "internal error" // Detail stays in the server's log
	}
	return withDetail(text, r.Detail)
}

// exited returns how for a process that exited, or for code that called sys.exit.
func (r Receipt) exited() string {
	code := strconv.Itoa(r.Code)
	switch {
	case r.workerDied():
		return withDetail("process exited "+code, r.Detail)
	case r.Detail == SysExit, r.Detail == "" && r.resisted():
		return "exit " + code
	case r.Code == 0:
		return r.Detail
	}
	return withDetail("exit "+code, r.Detail)
}

// timedOut returns how for a job that reached its timeout.
func (r Receipt) timedOut() string {
	how := "timed out after " + brief(r.Limit)
	if r.End == Alive {
		how += "; " + endTexts[Alive]
	}
	return how
}

// stopped returns how for a job that was stopped. It names the highest rung, and the cause unless
// the agent cancelled it.
func (r Receipt) stopped() string {
	last := highest(r.Rungs)
	how := map[Rung]string{"": "stopped", Interrupt: "interrupted", Terminate: "terminated", Kill: "killed"}[last]
	if last == "" && r.End == NotRun {
		how = "before it ran"
	}
	if r.End == Alive {
		how = endTexts[Alive]
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

// complete fills in the fields that follow from others, from the stop that was asked for, if any,
// and from the job's timeout.
func (r *Receipt) complete(asked *Stop, timeout time.Duration) {
	stop := r.Stop
	if asked != nil && r.resisted() {
		stop, r.By = asked, asked.By
	}
	if stop != nil && stop.By == Limit && r.Limit == 0 {
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
