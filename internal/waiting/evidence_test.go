//go:build unix

package waiting

import (
	"io/fs"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/procfs"
	"asyncrepl/internal/tty"
)

// A guess must not read like what the kernel has shown.
func TestByDistinguishesAGuess(t *testing.T) {
	ev := Evidence{PID: 812, Program: "sudo", Kind: Secret}
	if got, want := ev.By(), "read by sudo (pid 812)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ev.Inferred = true
	if got, want := ev.By(), "inferred from the terminal's mode, which sudo (pid 812) has set"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A rule decides on what the kernel showed of one thread at one moment.
func TestRules(t *testing.T) {
	reads := moment{mayRead: true, timeout: -1}
	for name, c := range map[string]struct {
		m    func(*moment)
		want verdict
	}{
		"reads the terminal alone":             {func(*moment) {}, waits},
		"reads for a minute":                   {func(m *moment) { m.timeout = time.Minute }, waits},
		"stopped":                              {func(m *moment) { m.stopped = true }, busy},
		"stopped, though it waits for others":  {func(m *moment) { m.stopped, m.otherWake = true, true }, busy},
		"not in the foreground any more":       {func(m *moment) { m.mayRead = false }, uncertain},
		"input or output in transit":           {func(m *moment) { m.inTransit = true }, uncertain},
		"in transit, though others may wake":   {func(m *moment) { m.inTransit, m.otherWake = true, true }, uncertain},
		"others may wake it":                   {func(m *moment) { m.otherWake = true }, accepts},
		"checks for input and goes on at once": {func(m *moment) { m.timeout = 0 }, accepts},
		"checks for input and goes on soon":    {func(m *moment) { m.timeout = shortWait - 1 }, accepts},
		"waits for a second":                   {func(m *moment) { m.timeout = shortWait }, waits},
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
		Line:   {Echo: true, Canon: true},
		Secret: {Canon: true},
		Key:    {Echo: true},
	} {
		if got := kindOf(mode); got != kind {
			t.Errorf("%+v: got %s, want %s", mode, got, kind)
		}
	}
}

// What could not be read says nothing; what is gone or never shown says that nothing waits there.
func TestErrorsAreNotVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want verdict
	}{
		"no descriptors":               {&fs.PathError{Err: unix.EMFILE}, uncertain},
		"no descriptors in the system": {unix.ENFILE, uncertain},
		"no memory":                    {unix.ENOMEM, uncertain},
		"moved on":                     {errMoved, uncertain},
		"gone":                         {procfs.ErrGone, busy},
		"not permitted":                {&fs.PathError{Err: unix.EACCES}, busy},
		"not supported":                {unix.ENOSYS, busy},
		"does not wait":                {errNoWait, busy},
	} {
		t.Run(name, func(t *testing.T) {
			if got := without(c.err); got != c.want {
				t.Errorf("got verdict %d, want %d", got, c.want)
			}
		})
	}
}

// After a scan that could not see everything the watcher keeps what it has reported.
func TestUncertainScanKeepsTheReport(t *testing.T) {
	var reported []bool
	w := &Watcher{OnChange: func(_ Evidence, waiting bool) { reported = append(reported, waiting) }}
	epoch := w.sendEpoch
	if !w.report(Evidence{Kind: Line}, waits, epoch, time.Time{}) || len(reported) != 1 {
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
			pty, err := tty.Open(24, 80)
			if err != nil {
				t.Fatal(err)
			}
			defer pty.Close()
			w := &Watcher{PTY: pty, Tree: func() ([]int, error) { return nil, c.err }}
			if ev, v := w.evidence(); v != c.want {
				t.Errorf("got %+v, verdict %d, want %d", ev, v, c.want)
			}
		})
	}
}
