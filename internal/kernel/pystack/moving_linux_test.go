package pystack

import (
	"errors"
	"os/exec"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// Frames of a thread that runs are no proof of greenlets: it can have lost its processor while it
// goes from one generator to another.
func TestRunningThreadHasNoGreenlets(t *testing.T) {
	busy := exec.Command("sh", "-c", "while :; do :; done")
	must.Do(t, busy.Start())
	defer busy.Wait()
	defer busy.Process.Kill()
	polltest.Until(t, "a process that runs", func() bool { _, _, runs, _ := activity(busy.Process.Pid); return runs })
	for _, l := range layoutsForTests(t) {
		_, target := interpreter(l, testProgram, testPlaces)
		target.bottom, target.pid = []uint64{1, 2}, busy.Process.Pid
		if _, err := target.Look(); !errors.Is(err, ErrMoving) {
			t.Errorf("3.%d: %v; want %v", l.minor, err, ErrMoving)
		}
	}
}
