package shell_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/terminal/keys"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// slow is a pace at which a program reads whatever it is sent, and nothing is typed after Esc.
var slow = tty.Pace{Read: jobstest.Patience, ReadEsc: jobstest.Patience, Esc: jobstest.Patience, Sequence: jobstest.Patience}

// startPaced starts a command to which keys are sent at a pace. It returns when the command has
// printed "on".
func (b *bench) startPaced(line string, pace tty.Pace) *jobs.Job {
	b.t.Helper()
	c := b.command(line, true)
	c.SetPace(pace)
	j := jobstest.Start(b.t, b.r, jobs.Spec{Kind: jobs.Shell, Title: line}, c)
	jobstest.Prints(b.t, j, "on")
	return j
}

// press returns the input of some keys.
func press(names ...string) jobs.Input {
	var in jobs.Input
	for _, name := range names {
		key, ok := keys.Parse(name)
		if !ok {
			key = keys.Text(name)
		}
		in.Keys = append(in.Keys, key)
	}
	return in
}

// sendBriefly sends input and does not wait until all of it is typed.
func sendBriefly(t *testing.T, j *jobs.Job, in jobs.Input) jobs.Delivery {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := j.Send(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// typed waits until n keys are typed.
func typed(t *testing.T, d jobs.Delivery, n int) {
	t.Helper()
	polltest.Until(t, "the keys to be typed", func() bool { typed, _, _ := d.Typing.Progress(); return typed == n })
}

// A receipt counts the keys that were not typed because the command ended, or was asked to.
func TestReceiptCountsKeysThatWereNotTyped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.startPaced("stty raw -echo; echo on; head -c1 >/dev/null", slow)
	jobstest.Send(t, j, press("esc", "x", "y"))
	if r := jobstest.End(t, j).Receipt; !slices.Equal(r.Notes, []string{"2 of 3 keys were not typed: the job ended first"}) {
		t.Errorf("%s, notes %q", r.Text(), r.Notes)
	}

	j = b.startPaced("stty raw -echo; echo on; exec cat -v", slow)
	first := sendBriefly(t, j, press("esc", "x"))
	typed(t, first, 1)
	second := sendBriefly(t, j, jobs.Input{Text: "y"})
	if first.Behind || !second.Behind {
		t.Errorf("behind earlier keys: %t, %t", first.Behind, second.Behind)
	}
	if d := sendBriefly(t, j, jobs.Input{Signal: "SIGWINCH"}); d.Signalled == "" {
		t.Error("a signal waits for keys")
	}
	j.Stop(jobs.Stop{By: jobs.Agent})
	want := []string{"1 of 2 keys were not typed: the job was asked to end", "what was sent behind keys was not typed: the job was asked to end"}
	if r := jobstest.End(t, j).Receipt; r.Text() != "cancelled (interrupted)" || !slices.Equal(r.Notes, want) {
		t.Errorf("%s, notes %q", r.Text(), r.Notes)
	}
	if out := jobstest.Output(j); strings.ContainsAny(out, "xy") {
		t.Errorf("output %q", out)
	}
}

// The next reply says what was not typed after its call.
func TestNextReplySaysWhatWasNotTyped(t *testing.T) {
	t.Parallel()
	pace := slow
	pace.Esc = time.Second // longer than the two calls take
	j := newBench(t).startPaced("stty raw -echo; echo on; exec cat -v", pace)
	jobstest.Asks(t, j)
	sendBriefly(t, j, press("esc", "x"))
	refused := sendBriefly(t, j, jobs.Input{EOF: true}) // at its turn
	<-refused.Typing.Done()
	want := "before that, what was sent behind keys was not typed: " + tty.ErrRawEOF.Error()
	if d := jobstest.Send(t, j, jobs.Input{Text: "."}); d.Note != want {
		t.Errorf("note %q, want %q", d.Note, want)
	}
	jobstest.Prints(t, j, "^[x.")
}

// A program that has read Esc does not wait for a client as long as keys follow.
func TestQuestionComesAfterAllKeys(t *testing.T) {
	t.Parallel()
	pace := slow
	pace.Esc = 300 * time.Millisecond
	j := newBench(t).startPaced("stty raw -echo; echo on; exec cat -v", pace)
	jobstest.Asks(t, j)
	d := sendBriefly(t, j, press("esc", "x"))
	if !d.Waiting {
		t.Error("the reply would not say that a program was waiting")
	}
	jobstest.Asks(t, j)
	if typed, keys, err := d.Typing.Progress(); typed != 2 || keys != 2 || err != nil {
		t.Errorf("it asks when %d of %d keys are typed, %v", typed, keys, err)
	}
}

// A key that is typed after its call interrupts, and the receipt says so.
func TestInterruptAfterEsc(t *testing.T) {
	t.Parallel()
	pace := slow
	pace.Esc = 10 * time.Millisecond
	j := newBench(t).startPaced(`exec python3 -I -S -c 'import os, select, signal, sys, tty
signal.signal(2, lambda *_: sys.exit())
tty.setcbreak(0)
os.write(1, b"on")
while not select.select([0], [], [], 0.01)[0] or os.read(0, 1): pass'`, pace)
	sendBriefly(t, j, press("esc", "ctrl-c"))
	if r := jobstest.End(t, j).Receipt; r.Text() != "completed (exit 0 after an interrupt)" {
		t.Error(r.Text())
	}
}
