package screen

import (
	"testing"
	"time"
)

// A goroutine that waits does not use up its time, and one that computes does.
func TestStopwatchCountsProcessorTime(t *testing.T) {
	w := startStopwatch(100 * time.Millisecond)
	defer w.stop()
	time.Sleep(110 * time.Millisecond)
	if w.over() {
		t.Error("the time was over after a sleep")
	}
	begin := time.Now()
	for !w.over() {
	}
	if time.Since(begin) < 90*time.Millisecond {
		t.Error("the time was over too soon")
	}
}
