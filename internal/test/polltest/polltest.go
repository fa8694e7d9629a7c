// Package polltest waits in tests for facts that nothing announces: that a file is there, that a
// process sleeps, that a list has grown. A fact that is announced needs no polling: wait for the
// line, the status or the closed channel.
package polltest

import (
	"errors"
	"testing"
	"time"
)

// Patience bounds every wait. A test that reaches it fails. It is long because the machine can be
// busy: no test says anything about speed.
const Patience = time.Minute

// pause is the time between two checks.
const pause = time.Millisecond

// Until waits until is returns true. If it never does, the test fails and says what it waited for.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	missing := errors.New("waited without success for " + what)
	Check(t, func() error {
		if is() {
			return nil
		}
		return missing
	})
}

// Check waits until check returns nil. If it never does, the test fails with the last error, which
// says what is missing. Each check makes its error, so what the error names must be cheap to find
// out and must change nothing.
func Check(t testing.TB, check func() error) {
	t.Helper()
	for end := time.Now().Add(Patience); ; time.Sleep(pause) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
