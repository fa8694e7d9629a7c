// Package allocation is what Slurm and Kubernetes have in common for us: the state of an allocation, the script
// that it runs, and how the commands of a scheduler are run, here or over ssh.
//
// What a scheduler prints is input from outside. Output is bounded, and its words are escaped before
// they stand in a [State] or in an [Error].
package allocation

import (
	"context"
	"time"
)

// A Phase says how far an allocation is.
type Phase int

const (
	Pending Phase = iota + 1 // it waits for resources; Text says why
	Running                  // a carrier can reach it
	Cut                      // it exists, but nothing reaches it now; that is no end
	Ended                    // it has ended; End says how
	Unknown                  // the scheduler does not know it any more; End says so
)

// A State is what a scheduler says about one allocation. All texts are escaped lines.
type State struct {
	Phase    Phase
	Text     string    // "Slurm job 812, node n2"; if it waits: "Slurm job 812, Priority, expected start 14:20"
	Node     string    // the machine on which it runs or ran; empty: not known
	Deadline time.Time // when its time limit ends it; zero: there is none, or it is not known
	Start    time.Time // when it started, or is expected to start; zero: not known
	End      string    // why it has ended: "node n2 lost: Slurm NODE_FAIL"; empty before that
	Remains  bool      // it has ended, and the scheduler keeps it until it is released
}

// Run runs a command of a scheduler and returns its standard output. It returns when ctx is done, and
// nothing of the command is left then, except what a command over ssh does on the other machine. The
// error is an *Error, or that of ctx.
type Run func(ctx context.Context, argv []string, stdin string) (stdout string, err error)

// An Error says why a command failed.
type Error struct {
	Program string // the command's program, or ssh if the other machine was not reached
	Code    int    // the exit status; 127 if there is no such program; -1 if a signal ended it
	Text    string // its last words: an escaped line
	Reached bool   // the command itself ran, or its program is missing there; false: ssh did not get in
}

func (e *Error) Error() string { return e.Program + ": " + e.Text }

// A Refused error says that the scheduler has refused an allocation: there is none, and nothing has to be given back.
type Refused struct{ error }

// Refuse returns err as a *Refused.
func Refuse(err error) error { return &Refused{err} }

// Unwrap returns why it was refused.
func (e *Refused) Unwrap() error { return e.error }
