package report

import (
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
)

func TestActivity(t *testing.T) {
	now := time.Now()
	rp := Reporter{now: func() time.Time { return now }}
	held := func(signals ...string) (p probe) {
		for i, sig := range signals {
			p.stopped = append(p.stopped, jobs.StoppedProcess{Process: jobs.Process{PID: 816 + i, Program: "cat"}, Signal: sig})
		}
		return p
	}
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, tt := range map[string]struct {
		info jobs.Info
		want string
	}{
		"quiet":     {jobs.Info{Started: ago(time.Minute), Output: output.Stat{Last: ago(40 * time.Second)}, Probe: probe{}}, "\nActivity: no output for 40.0s, python3 (pid 815) uses 98 % CPU\n"},
		"waits":     {jobs.Info{Started: ago(time.Minute), Output: output.Stat{Last: ago(40 * time.Second)}, Probe: probe{idle: true}}, "\nActivity: no output for 40.0s, bash (pid 5) waits for make (pid 6), which waits for the disk (for 12.0s)\n"},
		"never":     {jobs.Info{Started: ago(65 * time.Second)}, "\nActivity: no output yet, for 1m5s\n"},
		"gone":      {jobs.Info{Started: ago(time.Minute), Output: output.Stat{Last: ago(7 * time.Second)}, Probe: probe{err: jobs.ErrEnded}}, "\nActivity: no output for 7.0s\n"},
		"not quiet": {jobs.Info{Started: ago(time.Minute), Output: output.Stat{Last: ago(time.Second)}}, "\nElapsed: 1m0s\n"},
		"stopped":   {jobs.Info{Started: ago(time.Second), Probe: held("SIGTTIN")}, "\nActivity: stopped (SIGTTIN), cat (pid 816)\n"},
		"long":      {jobs.Info{Started: ago(time.Minute), Probe: held("", "SIGSTOP")}, "\nActivity: stopped, cat (pid 816) and 1 more; no output yet, for 1m0s\n"},
		"by us":     {jobs.Info{Started: ago(time.Second), Probe: held("SIGSTOP"), Cancelling: jobs.Kill}, "\nElapsed: 1.0s\n"},
	} {
		tt.info.Status = jobs.Running
		var r Reply
		rp.describe(&r, tt.info, known{})
		if got := r.String(); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestListenersAreNamedWithTheirProcesses(t *testing.T) {
	var r Reply
	python := jobs.Process{PID: 815, Program: "python3"}
	rp := Reporter{}
	rp.describe(&r, jobs.Info{Status: jobs.Running, Started: time.Now(), Listening: []jobs.Listener{
		{Address: "127.0.0.1:8000", Process: python}, {Address: "[::1]:8000", Process: python}}}, known{})
	if want := "\nListening: 127.0.0.1:8000 (python3, pid 815), [::1]:8000 (python3, pid 815)\n"; !strings.Contains(r.String(), want) {
		t.Errorf("%q lacks %q", r.String(), want)
	}
}

func TestDurationHasTwoUnitsAtMost(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.00s", 20 * time.Millisecond: "0.02s", 4299 * time.Millisecond: "4.2s", 192 * time.Second: "3m12s", 125 * time.Minute: "2h5m",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestStoppedReaderIsNamed(t *testing.T) {
	var r Reply
	new(Reporter).describe(&r, jobs.Info{Status: jobs.Running, Started: time.Now(), Stopped: "cat (pid 812)"}, known{})
	if want := "\nStopped: cat (pid 812) wants the terminal; it is in the background\n"; !strings.Contains(r.String(), want) {
		t.Errorf("%q lacks %q", r.String(), want)
	}
}

// A reply to input says whether a program was waiting for it, as far as that is known.
func TestDeliveryIsDescribed(t *testing.T) {
	for _, tt := range []struct {
		d    jobs.Delivery
		in   jobs.Input
		want string
	}{
		{jobs.Delivery{Waiting: true}, jobs.Input{}, "delivered"},
		{jobs.Delivery{Waiting: true, Note: "cut"}, jobs.Input{}, "delivered; cut"},
		{jobs.Delivery{Made: "SIGINT"}, jobs.Input{}, "SIGINT sent by the terminal"},
		{jobs.Delivery{Untaken: true}, jobs.Input{}, "sent; the program that waits for it is busy and has not taken it yet"},
		{jobs.Delivery{Unseen: true}, jobs.Input{EOF: true}, "the command's standard input is closed"},
		{jobs.Delivery{Unseen: true}, jobs.Input{}, "written to the command's standard input; whether a program reads a pipe can't be seen"},
		{jobs.Delivery{}, jobs.Input{}, "no program was waiting for it; it is buffered until one reads"},
	} {
		if got := Delivered(tt.d, tt.in); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.d, got, tt.want)
		}
	}
}
