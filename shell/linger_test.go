package shell_test

import (
	"strings"
	"testing"

	"asyncrepl/jobs/jobstest"
	"asyncrepl/shell"
)

// A server that was started in the background survives the shell if it was started to do so.
func TestDetachedSurvivesTheShell(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for line, survives := range map[string]bool{
		`nohup sleep 300 >/dev/null 2>&1 &`:                     true,
		`setsid sleep 300 &`:                                    true,
		`cd / && nohup sleep 300 >/dev/null 2>&1 & exit 3`:      true,
		`(nohup sleep 300 >/dev/null 2>&1 &)`:                   true,
		"nohup sleep 300 >/dev/null 2>&1 & cat <<E\na & b\nE\n": true,
		`sleep 300 &`:            false,
		`sleep 300 & echo nohup`: false,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			j := b.start(line)
			info := jobstest.End(t, j)
			left := info.Receipt.Left
			if survives != (len(left) == 1 && left[0].Program == "sleep") {
				t.Errorf("%s; left running: %v; hung up: %v", info.Receipt.Text(), left, info.Receipt.HungUp)
			}
			if want := strings.Contains(line, "exit 3"); want != (info.Receipt.Code == 3) {
				t.Errorf("exit %d", info.Receipt.Code)
			}
		})
	}
}

// Only a line that starts something to survive the shell keeps the shell.
func TestLingers(t *testing.T) {
	for line, want := range map[string]bool{
		"nohup a &":              true,
		"setsid a&":              true,
		"x; nohup a >l 2>&1 & b": true,
		"nohup a > l 2>&1":       false,
		"nohup a && b":           false,
		"nohup a &>l":            false,
		"nohup a |& b <&3":       false,
		"a &":                    false,
		"echo hi":                false,
	} {
		if got := shell.Lingers(line); got != want {
			t.Errorf("%s: got %t, want %t", line, got, want)
		}
	}
}
