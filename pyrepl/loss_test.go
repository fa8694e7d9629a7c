package pyrepl_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/test/polltest"
)

// The death of an idle worker is known at once and until the next job, with the names that were
// lost. The receipt of that job names them too.
func TestIdleWorkerIsLost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want("a = b = 1", "completed")
	record, _ := b.want("c = 1", "completed")
	if loss := b.s.Lost(); loss != nil {
		t.Errorf("of a living worker: %v", loss)
	}
	kill(t, record.PID)
	polltest.Until(t, "the loss", func() bool { return b.s.Lost() != nil })
	want := "session default's Python was killed by SIGKILL after job " + record.ID + "; variables lost: a, b, c"
	for range 2 {
		v, err := b.s.Variables(t.Context(), "")
		if err != nil || v.Total != 0 || v.Lost == nil || v.Lost.String() != want {
			t.Errorf("variables %+v, %v; want %q", v, err, want)
		}
	}
	next, _ := b.want("d = 1", "completed")
	if want := "a new worker was started: the last one was killed by SIGKILL between jobs; variables lost: a, b, c"; !slices.Contains(next.Receipt.Notes, want) {
		t.Errorf("notes %q, want %q", next.Receipt.Notes, want)
	}
	if v, err := b.s.Variables(t.Context(), ""); err != nil || v.Lost != nil || v.Total != 1 {
		t.Errorf("of the next worker: %+v, %v", v, err)
	}
}

// The receipt of a job whose worker died names what was lost, twenty names at most.
func TestReceiptNamesLostVariables(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct{ code, want string }{
		{"a, b = 1, 2", "variables lost: a, b, os"},
		{"for i in range(30): globals()['n%02d' % i] = i", "variables lost: i, n00, n01, n02, n03, n04, n05, n06, n07, n08, n09, n10, n11, n12, n13, n14, n15, n16, n17, n18 and 12 more"},
		{strings.Repeat("y", 170) + " = 1", "variables lost: os and 1 more"},
	} {
		b.run("import os\n" + test.code)
		record, _ := b.want("late = 1; os._exit(7)", "failed (process exited 7; variables lost)")
		if !slices.Contains(record.Receipt.Notes, test.want) {
			t.Errorf("notes %q, want %q", record.Receipt.Notes, test.want)
		}
	}
}

// If an idle worker does not answer, the names that it reported last are listed.
func TestSilentWorker(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for an answer for a second")
	}
	t.Parallel()
	b := newBench(t)
	record, _ := b.want("a = 1", "completed")
	if err := syscall.Kill(record.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	v, err := b.s.Variables(t.Context(), "")
	if err != nil || !v.Silent || v.AsOf != record.ID || v.Total != 1 || v.Vars[0].Name != "a" {
		t.Errorf("variables %+v, %v", v, err)
	}
	if err := syscall.Kill(record.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.result("a", "1")
	if v, err := b.s.Variables(t.Context(), ""); err != nil || v.Silent || v.AsOf != "" || v.Total != 1 || v.Vars[0].Value != "1" {
		t.Errorf("variables afterwards: %+v, %v", v, err)
	}
}
