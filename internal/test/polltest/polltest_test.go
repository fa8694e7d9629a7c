package polltest_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/test/polltest"
)

// This is the package's example. It is a test, because the functions take a testing.TB.
func TestExample(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	go os.WriteFile(ready, nil, 0o600)
	polltest.Until(t, "the file", func() bool { _, err := os.Stat(ready); return err == nil })
}

// A failing records how a test would have failed.
type failing struct {
	testing.TB
	said []any
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) { f.said = args; runtime.Goexit() }

// A fact that never becomes true fails the test after a minute, in the words of the last check.
func TestWaitsEndWithTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		begin := time.Now()
		done := make(chan struct{})
		var last error
		go func() { // ends when the check is given up
			defer close(done)
			polltest.Check(f, func() error { last = errors.New(time.Since(begin).String()); return last })
		}()
		<-done
		if waited := time.Since(begin); waited < polltest.Patience || waited > polltest.Patience+time.Second {
			t.Errorf("it waited %v", waited)
		}
		if len(f.said) != 1 || f.said[0] != last {
			t.Errorf("it said %v, want %v", f.said, last)
		}
	})
}
