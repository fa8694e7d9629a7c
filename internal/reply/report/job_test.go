package report

import (
	"errors"
	"regexp"
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
		record jobs.Record
		probe  jobs.Probe
		want   string
	}{
		"quiet":     {jobs.Record{Started: ago(time.Minute), Output: output.Stat{Last: ago(40 * time.Second)}}, probe{}, "\nActivity: no output for 40.0s, python3 (pid 815) uses 98 % CPU\n"},
		"waits":     {jobs.Record{Started: ago(time.Minute), Output: output.Stat{Last: ago(40 * time.Second)}}, probe{idle: true}, "\nActivity: no output for 40.0s, bash (pid 5) waits for make (pid 6), which waits for the disk (for 12.0s)\n"},
		"never":     {jobs.Record{Started: ago(65 * time.Second)}, nil, "\nActivity: no output yet, for 1m5s\n"},
		"gone":      {jobs.Record{Started: ago(time.Minute), Output: output.Stat{Last: ago(7 * time.Second)}}, probe{err: jobs.ErrEnded}, "\nActivity: no output for 7.0s\n"},
		"not quiet": {jobs.Record{Started: ago(time.Minute), Output: output.Stat{Last: ago(time.Second)}}, nil, "\nElapsed: 1m0s\n"},
		"stopped":   {jobs.Record{Started: ago(time.Second)}, held("SIGTTIN"), "\nActivity: stopped (SIGTTIN), cat (pid 816)\n"},
		"long":      {jobs.Record{Started: ago(time.Minute)}, held("", "SIGSTOP"), "\nActivity: stopped, cat (pid 816) and 1 more; no output yet, for 1m0s\n"},
		"by us":     {jobs.Record{Started: ago(time.Second), Cancelling: jobs.Kill}, held("SIGSTOP"), "\nElapsed: 1.0s\n"},
	} {
		tt.record.Status = jobs.Running
		var r Reply
		rp.describe(&r, tt.record, jobs.Live{Probe: tt.probe}, inputContext{})
		if got := r.String(); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// While a stop spares the variables, the reply says what it waits for and what force would cost.
func TestHoldIsDescribed(t *testing.T) {
	for _, tt := range []struct {
		hold *jobs.Hold
		want string
	}{
		{&jobs.Hold{Why: "waiting for numpy.linalg.svd to return", Variables: 12},
			"Cancelling: interrupt (waiting for numpy.linalg.svd to return)\n" +
				"Next: wait_for_jobs; or cancel_job(force=true), which ends Python and loses 12 variables and those of this job\n"},
		{&jobs.Hold{Why: "KeyboardInterrupt was raised 3s ago, and the code continues", Reached: true, Variables: 1},
			"Cancelling: interrupt (KeyboardInterrupt was raised 3s ago, and the code continues)\n" +
				"Next: wait_for_jobs; or cancel_job, which interrupts it again; or cancel_job(force=true), which ends Python and loses 1 variable and those of this job\n"},
		{nil, "Cancelling: interrupt\n"},
	} {
		record := jobs.Record{Status: jobs.Running, Cancelling: jobs.Interrupt, Started: time.Now()}
		live := jobs.Live{Hold: func() (jobs.Hold, bool) {
			if tt.hold == nil {
				return jobs.Hold{}, false
			}
			return *tt.hold, true
		}}
		var r Reply
		k := inputContext{hold: hold(live)}
		new(Reporter).describe(&r, record, live, k)
		(&Reporter{}).writeNext(&r, record, k)
		got := regexp.MustCompile(`(?m)^(Job ID|Status|Elapsed): .*\n`).ReplaceAllString(r.String(), "")
		if got != tt.want {
			t.Errorf("%q; want %q", got, tt.want)
		}
	}
}

// A reply about a job that has lost variables names the checkpoint that has them.
func TestNextNamesACheckpoint(t *testing.T) {
	for of, want := range map[string]string{"": "", "J1": "Next: restart_python_worker(session=\"lab\", checkpoint=\"J1\"), which continues with the variables after that job\n"} {
		for _, state := range []jobs.State{jobs.Lost, jobs.Kept} {
			var r Reply
			rp := &Reporter{Restorable: func(jobs.Record) string { return of }}
			rp.writeNext(&r, jobs.Record{Spec: jobs.Spec{Session: "lab"}, Status: jobs.Failed, Receipt: jobs.Receipt{State: state}}, inputContext{})
			if state == jobs.Kept {
				want = ""
			}
			if got := r.String(); got != want {
				t.Errorf("checkpoint %q, %s: %q; want %q", of, state, got, want)
			}
		}
	}
}

func TestListenersAreNamedWithTheirProcesses(t *testing.T) {
	var r Reply
	python := jobs.Process{PID: 815, Program: "python3"}
	rp := Reporter{}
	rp.describe(&r, jobs.Record{Status: jobs.Running, Started: time.Now(), Listening: []jobs.Listener{
		{Address: "127.0.0.1:8000", Process: python}, {Address: "[::1]:8000", Process: python}}}, jobs.Live{}, inputContext{})
	if want := "\nListening: 127.0.0.1:8000 (python3, pid 815), [::1]:8000 (python3, pid 815)\n"; !strings.Contains(r.String(), want) {
		t.Errorf("%q lacks %q", r.String(), want)
	}
}

func TestServersOfAnEventLoopAreNotNamedAsListeners(t *testing.T) {
	var r Reply
	record := jobs.Record{Status: jobs.Running, Started: time.Now(), Listening: []jobs.Listener{{Address: "127.0.0.1:8000"}, {Address: "[::1]:9000"}}}
	live := jobs.Live{OnLoop: func() []string { return []string{"127.0.0.1:8000"} }}
	new(Reporter).describe(&r, record, live, inputContext{})
	want := "\nListening: [::1]:9000 (, pid 0)\nNote: the session's event loop serves 127.0.0.1:8000: it answers only while a job awaits\n"
	if got := r.String(); !strings.Contains(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
	if got := new(Reporter).Document(record, live, nil, nil).Listening; len(got) != 1 || got[0].Address != "[::1]:9000" {
		t.Errorf("the document has %+v", got)
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
	new(Reporter).describe(&r, jobs.Record{Status: jobs.Running, Started: time.Now(), Stopped: "cat (pid 812)"}, jobs.Live{}, inputContext{})
	if want := "\nStopped: cat (pid 812) wants the terminal; it is in the background\n"; !strings.Contains(r.String(), want) {
		t.Errorf("%q lacks %q", r.String(), want)
	}
}

// A fixedTyping is a jobs.Typing that does not change.
type fixedTyping struct {
	typed, keys int
	err         error
	done        chan struct{}
}

func typingOf(typed, keys int, err error, done bool) fixedTyping {
	f := fixedTyping{typed, keys, err, make(chan struct{})}
	if done {
		close(f.done)
	}
	return f
}

func (f fixedTyping) Done() <-chan struct{}       { return f.done }
func (f fixedTyping) Behind() bool                { return f.typed == 0 }
func (f fixedTyping) Progress() (int, int, error) { return f.typed, f.keys, f.err }

// A heldTyping is a fixedTyping that follows no other.
type heldTyping struct{ fixedTyping }

func (heldTyping) Behind() bool { return false }

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
		{jobs.Delivery{Made: "SIGINT", Rest: true}, jobs.Input{}, "SIGINT sent by the terminal; no program was waiting for the rest; it is buffered until one reads"},
		{jobs.Delivery{Signalled: "sleep (pid 812)"}, jobs.Input{Signal: "SIGINT", Text: "x"}, "SIGINT sent to sleep (pid 812); no program was waiting for the rest; it is buffered until one reads"},
		{jobs.Delivery{Signalled: "vi (pid 812)", Typing: typingOf(0, 8, nil, false)}, jobs.Input{Signal: "SIGWINCH", Text: "x"}, "SIGWINCH sent to vi (pid 812); the rest follows when earlier keys are typed"},
		{jobs.Delivery{Waiting: true, Made: "SIGINT"}, jobs.Input{}, "SIGINT sent by the terminal"},
		{jobs.Delivery{Waiting: true, Made: "SIGINT", Rest: true}, jobs.Input{}, "SIGINT sent by the terminal; delivered"},
		{jobs.Delivery{Unsure: true}, jobs.Input{}, "sent; a program gets it when it reads"},
		{jobs.Delivery{Untaken: true}, jobs.Input{}, "sent; the program that waits for it is busy and has not taken it yet"},
		{jobs.Delivery{Outside: true}, jobs.Input{}, "sent; whether a program outside the job reads it can't be seen"},
		{jobs.Delivery{Unseen: true}, jobs.Input{EOF: true}, "the command's standard input is closed"},
		{jobs.Delivery{Unseen: true}, jobs.Input{}, "written to the command's standard input; whether a program reads a pipe can't be seen"},
		{jobs.Delivery{}, jobs.Input{}, "no program was waiting for it; it is buffered until one reads"},
		{jobs.Delivery{Waiting: true, Typing: typingOf(3, 8, nil, false)}, jobs.Input{}, "3 of 8 keys typed; the rest follows"},
		{jobs.Delivery{Waiting: true, Typing: typingOf(8, 8, nil, true)}, jobs.Input{}, "delivered"},
		{jobs.Delivery{Typing: typingOf(0, 8, nil, false), Behind: true}, jobs.Input{}, "it follows when earlier keys are typed"},
		{jobs.Delivery{Typing: heldTyping{typingOf(0, 0, nil, false)}}, jobs.Input{Text: "x"}, "it follows; what comes after esc is held back"},
		{jobs.Delivery{Typing: heldTyping{typingOf(0, 2, nil, false)}}, jobs.Input{}, "0 of 2 keys typed; the rest follows"},
		{jobs.Delivery{Typing: typingOf(0, 0, nil, false)}, jobs.Input{}, "it follows when earlier keys are typed"},
		{jobs.Delivery{Typing: typingOf(8, 8, nil, true), Behind: true}, jobs.Input{}, "typed after earlier keys"},
		{jobs.Delivery{Waiting: true, Typing: typingOf(3, 8, errors.New("the job ended first"), true)}, jobs.Input{}, "3 of 8 keys typed; the rest was not: the job ended first"},
		{jobs.Delivery{Typing: typingOf(0, 0, errors.New("the job ended first"), true)}, jobs.Input{}, "not typed: the job ended first"},
	} {
		if got := Delivered(tt.d, tt.in, false); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.d, got, tt.want)
		}
	}
	for want, d := range map[string]jobs.Delivery{
		"no program was waiting for it":                                    {},
		"SIGINT sent by the terminal; no program was waiting for the rest": {Made: "SIGINT", Rest: true},
		"delivered; it was cut":                                            {Waiting: true, Note: "it was cut"},
	} {
		if got := Delivered(d, jobs.Input{Text: "x"}, true); got != want {
			t.Errorf("of a job that has ended: %q, want %q", got, want)
		}
	}
}
