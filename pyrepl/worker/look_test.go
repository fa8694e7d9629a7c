package worker

import (
	"errors"
	"os"
	"testing"
	"time"

	"asyncrepl/internal/callstack"
	"asyncrepl/internal/pystack"
)

// The reason why no look is possible is said once for each worker.
func TestReasonForNoLookIsSaidOnce(t *testing.T) {
	w := &Worker{sight: newSight(os.Getpid(), "3.99.0", "/usr/bin/python3", "/")}
	none := func(string) (string, bool) { return "", false }
	first, second := &looker{sight: w.sight, code: none}, &looker{sight: w.sight, code: none}
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
	l := &looker{}
	for _, c := range []struct {
		name  string
		after time.Duration
		stack pystack.Stack
		want  callstack.Since
	}{
		{"the first", 0, pystack.Stack{Mark: 1}, callstack.First},
		{"another place", time.Second, pystack.Stack{Mark: 2, CPU: time.Second}, callstack.Moved},
		{"asleep", time.Second, pystack.Stack{Mark: 2, CPU: time.Second}, callstack.Still},
		{"woken now and then", 10 * time.Second, pystack.Stack{Mark: 2, CPU: time.Second + 10*time.Millisecond}, callstack.Still},
		{"at work", time.Second, pystack.Stack{Mark: 2, CPU: 2 * time.Second}, callstack.Worked},
		{"at work, and soon looked at again", time.Millisecond, pystack.Stack{Mark: 2, CPU: 2 * time.Second, Running: true}, callstack.Worked},
	} {
		now = now.Add(c.after)
		if got := l.since(c.stack, now); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
