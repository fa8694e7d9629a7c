//go:build unix

package runner_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/test/needtest"
)

// A probe measures the whole tree while it lives, and says so when it is gone.
func TestProbe(t *testing.T) {
	needtest.Linux(t, "a probe of other processes")
	owner, err := process.NewOwner(process.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Shutdown()
	h, err := owner.Start(process.Spec{
		Argv: []string{"sh", "-c", "yes >/dev/null & wait"}, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: "/", Mark: "probe",
	})
	if err != nil {
		t.Fatal(err)
	}
	probe := runner.Probe(h)
	for end := time.Now().Add(time.Minute); ; {
		p, percent, err := probe.Busiest()
		if err == nil && p.Program == "yes" && p.PID != h.PID() && percent > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("busiest is %v, %v, %v", p, percent, err)
		}
	}
	if p, words, _ := probe.Waits(0); p.PID != h.PID() || !strings.HasPrefix(words, "waits for yes (pid ") {
		t.Errorf("%v %s", p, words)
	}
	if u, err := probe.Usage(); err != nil || u.Processes != 2 || u.Memory == 0 {
		t.Errorf("usage %+v, %v", u, err)
	}
	h.Stop(process.Ladder{From: ladder.Kill})
	if u, err := probe.Usage(); err == nil {
		t.Errorf("usage %+v of a tree that is gone", u)
	}
	if p, _, err := probe.Busiest(); err == nil {
		t.Errorf("%v is the busiest of a tree that is gone", p)
	}
	if p, words, since := probe.Waits(0); words != "" || since != 0 {
		t.Errorf("%v %s in a tree that is gone, for %v", p, words, since)
	}
}
