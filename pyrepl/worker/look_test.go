package worker

import (
	"errors"
	"os"
	"testing"
	"time"

	"asyncrepl/internal/kernel/pystack"
	"asyncrepl/internal/text/callstack"
)

// The reason why no look is possible is said once for each worker.
func TestReasonForNoLookIsSaidOnce(t *testing.T) {
	w := &Worker{stackReader: newStackReader(os.Getpid(), "3.99.0", "/usr/bin/python3", "/")}
	none := func(string) (string, string, bool) { return "", "", false }
	first, second := &Looker{stackReader: w.stackReader, code: none}, &Looker{stackReader: w.stackReader, code: none}
	if _, err := first.Look(); !errors.As(err, new(*pystack.UnavailableError)) {
		t.Errorf("the first look: %v", err)
	}
	for range 2 {
		if _, err := second.Look(); !errors.Is(err, callstack.ErrSaid) {
			t.Errorf("a later look: %v", err)
		}
	}
}

func TestSince(t *testing.T) {
	now := time.Now()
	l := &Looker{}
	at := func(mark uint64, cpu time.Duration, switches int) pystack.Stack {
		return pystack.Stack{Mark: mark, CPU: cpu, Switches: switches}
	}
	running := at(2, 2*time.Second, 2)
	running.Running = true
	for _, c := range []struct {
		name  string
		after time.Duration
		stack pystack.Stack
		wrote int64
		want  callstack.Since
	}{
		{"the first", 0, at(1, time.Second, 1), 0, callstack.First},
		{"another place", time.Second, at(2, time.Second, 1), 0, callstack.Moved},
		{"asleep", time.Second, at(2, time.Second, 1), 0, callstack.Still},
		{"woken", time.Second, at(2, time.Second, 2), 0, callstack.Same},
		{"with output of another thread", time.Second, at(2, time.Second, 2), 7, callstack.Same},
		{"asleep again", time.Second, at(2, time.Second, 2), 7, callstack.Still},
		{"woken without a switch that was counted", 10 * time.Second, at(2, time.Second+10*time.Millisecond, 2), 7, callstack.Same},
		{"at work", time.Second, at(2, 2*time.Second, 2), 7, callstack.Worked},
		{"at work, and soon looked at again", time.Millisecond, running, 7, callstack.Worked},
		{"with switches that can't be read", time.Second, at(2, 2*time.Second, 0), 7, callstack.Same},
		{"with nothing to go by", time.Second, at(2, 2*time.Second, 0), 7, callstack.Same},
	} {
		now = now.Add(c.after)
		if got := l.since(c.stack, c.wrote, now); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
