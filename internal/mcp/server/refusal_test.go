package server

import (
	"errors"
	"fmt"
	"testing"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/pyrepl/checkpoint"
)

func TestRefusalsNameTheToolThatHelps(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{tty.ErrLineTooLong, "A line of more than 4095 bytes is cut by a terminal in line mode: send it in parts to a command started with tty=false, or put it in a file"},
		{tty.ErrControl, "Control characters are acted on by a terminal in line mode, not read by the program: press them with keys, such as keys=[\"ctrl-c\"]; use eof=true for end of file, or tty=false"},
		{tty.ErrEcho, "The terminal would echo a secret into the output: wait until the job asks with Waiting: secret"},
		{tty.ErrRawEOF, `The program reads single keys, so its terminal has no end of file: send keys=["ctrl-d"], which ends a readline prompt, or the key that the program quits by`},
		{&engine.DeletedError{Session: "base"}, "Session base was deleted while its branch waited for it, and its variables are lost; make the session without from_session"},
		{errors.New("anything else"), "Anything else"},
	} {
		if got := refusalOf(fmt.Errorf("%w", c.err), nil, true).String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// A process holds a checkpoint.
type process struct{}

func (process) Ended() string { return "" }
func (process) Memory() int64 { return 0 }
func (process) Close()        {}

func TestRefusalsSayWhatReplacesACheckpoint(t *testing.T) {
	var set checkpoint.Set[process]
	refused := func(session, job, want string) {
		t.Helper()
		_, _, err := set.Find(session, session, job)
		if got := refusalOf(err, nil, true).String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	refused("s", checkpoint.Latest, "Session s has no checkpoint: run a job with checkpoint=true first")
	set.Add(checkpoint.Point[process]{Owner: "s", Session: "s", Job: "J1"})
	refused("s", "J2", "Session s has no checkpoint of job J2; there are those of J1")
	refused("t", "J1", "The checkpoint of job J1 is one of session s, not of t; execute_python with from_job continues from it in a new session")
	set.Drop("s")
	refused("s", "J1", "The checkpoint of job J1 is gone: it was dropped with its session; execute_python with from_job and rerun=true makes its state again")
}
