//go:build linux

package process

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// untied returns an orphan that leads its own session on the terminal pty, and that the jobs of two
// Owners could have started.
func untied(t *testing.T, o *Owner, other *job, pty *tty.PTY) procfs.Process {
	t.Helper()
	for { // again, if a scan saw it before its parents had ended, or before it had closed the job's terminal
		j := onTTY(t, o, "parent", fmt.Sprintf(
			`exec 3>&1; (env -i setsid bash -c 'exec <>%s >&0 2>&1; echo pid=$$. >&3; exec 3>&-; read x; exit 7' &); read x`, pty.Slave().Name()))
		j.says(t, ".")
		_, number, _ := strings.Cut(j.output(), "pid=")
		pid := must.Get(strconv.Atoi(number[:strings.Index(number, ".")]))(t)
		s, ok := inspect(pid)
		if !ok {
			t.Fatal("the orphan has ended")
		}
		orphaned(t, s.Process)
		if slices.ContainsFunc(o.Unattributed(), same(s.Process)) && slices.ContainsFunc(other.owner.Unattributed(), same(s.Process)) {
			return s.Process
		}
		j.Stop(Ladder{From: ladder.Kill})
	}
}

// An orphan that is adopted, or is about to be, outlives another Owner whose guard watched it
// because a job of that could have started it.
func TestGuardOfAnotherOwnerSparesTheAdopted(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when+" the other's end", func(t *testing.T) {
			o := newOwner(t)
			another := must.Get(NewOwner(guarded()))(t)
			t.Cleanup(another.Shutdown)
			other := onTTY(t, another, "other", "read x")
			pty := newPTY(t)
			p := untied(t, o, other, pty)
			var adopted *job
			if when == "before" {
				adopted = adopt(t, o, p, pty)
			}
			guard := another.guard.pid()
			another.Shutdown()
			polltest.Until(t, "the end of the guard", func() bool { _, ok := inspect(guard); return !ok })
			if e, ok := inspect(p.PID); !ok || e.Ended() || e.Start != p.Start {
				t.Fatalf("the orphan is gone: %+v", e)
			}
			if adopted == nil {
				adopted = adopt(t, o, p, pty)
			}
			say(t, pty, "\n")
			if got := ends(t, adopted.Handle); got != (Exit{Code: 7}) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
