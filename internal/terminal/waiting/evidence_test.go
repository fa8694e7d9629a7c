//go:build unix

package waiting

import (
	"io/fs"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/threads"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/must"
)

// A guess must not read like a read that the kernel has shown.
func TestByDistinguishesAGuess(t *testing.T) {
	ev := Evidence{pid: 812, program: "sudo", Kind: kindSecret}
	if got, want := ev.By(), "read by sudo (pid 812)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ev.also = "listens on 127.0.0.1:8000"
	if got, want := ev.By(), "read by sudo (pid 812), which also listens on 127.0.0.1:8000"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !ev.Reads() || ev.Stopped() != "" {
		t.Errorf("%+v reads: %t; stopped: %q", ev, ev.Reads(), ev.Stopped())
	}
	ev.inferred = true
	if got, want := ev.By(), "inferred from the terminal's mode, which sudo (pid 812) has set"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRules(t *testing.T) {
	reads := moment{mayRead: true, timeout: -1}
	for name, c := range map[string]struct {
		m    func(*moment)
		want verdict
	}{
		"reads the terminal alone":                   {func(*moment) {}, waits},
		"reads for a minute":                         {func(m *moment) { m.timeout = time.Minute }, waits},
		"stopped":                                    {func(m *moment) { m.stopped = true }, busy},
		"stopped, though it waits for others":        {func(m *moment) { m.stopped, m.also = true, "works" }, busy},
		"stopped, because it read in the background": {func(m *moment) { m.stopped, m.reads, m.mayRead = true, true, false }, stopped},
		"stopped in the background, in a poll":       {func(m *moment) { m.stopped, m.mayRead = true, false }, busy},
		"stopped in a read":                          {func(m *moment) { m.stopped, m.reads = true, true }, busy},
		"no longer in the foreground":                {func(m *moment) { m.mayRead = false }, uncertain},
		"input or output in transit":                 {func(m *moment) { m.inTransit = true }, uncertain},
		"in transit, though others can wake it":      {func(m *moment) { m.inTransit, m.also = true, "works" }, uncertain},
		"others can wake it":                         {func(m *moment) { m.also = "works" }, accepts},
		"checks for input without waiting":           {func(m *moment) { m.timeout = 0 }, looping},
		"waits for almost a second":                  {func(m *moment) { m.timeout = briefWait - 1 }, looping},
		"works in another thread":                    {func(m *moment) { m.working = true }, crowded},
		"works in another thread, and asks again":    {func(m *moment) { m.working, m.timeout = true, 0 }, looping},
		"works, though others can wake it":           {func(m *moment) { m.working, m.also = true, "works" }, accepts},
		"waits for a second":                         {func(m *moment) { m.timeout = briefWait }, waits},
	} {
		t.Run(name, func(t *testing.T) {
			m := reads
			c.m(&m)
			if got := judge(m); got != c.want {
				t.Errorf("got verdict %d, want %d", got, c.want)
			}
		})
	}
}

func TestKindFollowsTheMode(t *testing.T) {
	for kind, mode := range map[string]tty.Mode{
		kindLine:   {Echo: true, Canon: true},
		kindSecret: {Canon: true},
		kindKey:    {Echo: true},
	} {
		if got := kindOf(mode); got != kind {
			t.Errorf("%+v: got %s, want %s", mode, got, kind)
		}
	}
}

// A reading that failed leaves it open whether a program waits. A thread that is gone or never
// shown does not wait.
func TestErrorsAreNotVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want verdict
	}{
		"no descriptors":               {&fs.PathError{Err: unix.EMFILE}, uncertain},
		"no descriptors in the system": {unix.ENFILE, uncertain},
		"no memory":                    {unix.ENOMEM, uncertain},
		"moved on":                     {threads.ErrMoved, uncertain},
		"gone":                         {procfs.ErrGone, busy},
		"not permitted":                {&fs.PathError{Err: unix.EACCES}, busy},
		"not supported":                {unix.ENOSYS, busy},
		"does not wait":                {threads.ErrNoWait, busy},
	} {
		t.Run(name, func(t *testing.T) {
			if got := verdictAfter(c.err); got != c.want {
				t.Errorf("got verdict %d, want %d", got, c.want)
			}
		})
	}
}

// After a scan that could not see everything, the watcher keeps its last report.
func TestUncertainScanKeepsTheReport(t *testing.T) {
	var reported []bool
	w := &Watcher{OnChange: func(_ Evidence, waiting bool) { reported = append(reported, waiting) }}
	epoch := w.sendEpoch
	if !w.report(Evidence{Kind: kindLine}, waits, epoch, time.Time{}) || len(reported) != 1 {
		t.Fatal("the first scan was not reported")
	}
	if w.report(Evidence{}, uncertain, epoch, time.Time{}) || len(reported) != 1 {
		t.Errorf("reported %v after a scan that saw nothing for certain", reported)
	}
	if !w.report(Evidence{}, busy, epoch, time.Time{}) || len(reported) != 2 {
		t.Errorf("reported %v after one that did", reported)
	}
}

// A tree that could not be listed changes no report.
func TestUnlistedTreeIsUncertain(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want verdict
	}{"no descriptors": {unix.EMFILE, uncertain}, "not permitted": {unix.EPERM, busy}, "none": {nil, busy}} {
		t.Run(name, func(t *testing.T) {
			pty := must.Get(tty.Open(24, 80))(t)
			defer pty.Close()
			w := &Watcher{Source: pty, Tree: func() ([]int, error) { return nil, c.err }}
			if ev, v := w.evidence(); v != c.want {
				t.Errorf("got %+v, verdict %d, want %d", ev, v, c.want)
			}
		})
	}
}
