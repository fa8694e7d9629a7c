//go:build linux

package process

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/racetest"
)

// Once a program's end is known and its terminal or pipe is drained, all its output is there.
func TestOutputIsCompleteAtTheEnd(t *testing.T) {
	const hands = 4
	children := 2000
	switch {
	case testing.Short():
		children = 100
	case racetest.Enabled: // .ci/long starts them all
		children = 200
	}
	o := newOwner(t)
	want := "first\r\n" + strings.Repeat("0123456789\r\n", 20) + "END"
	script := "echo first; echo '" + strings.Repeat("0123456789\n", 19) + "0123456789'; printf END"
	var wg sync.WaitGroup
	for range hands {
		wg.Go(func() {
			for i := range children / hands {
				got, err := quick(o, script, i%4 != 3)
				if err != nil {
					t.Error(err)
					return
				}
				if got != want && strings.ReplaceAll(want, "\r", "") != got {
					t.Errorf("run %d: got %q", i, got)
				}
			}
		})
	}
	wg.Wait()
}

// quick runs a script to its end and returns what it wrote, on a terminal or a pipe.
func quick(o *Owner, script string, terminal bool) (string, error) {
	s := Spec{Argv: []string{"/bin/sh", "-c", script}, Env: testEnv}
	var from *os.File
	if terminal {
		pty, err := tty.Open(24, 80)
		if err != nil {
			return "", err
		}
		defer pty.Close()
		s.TTY, from = pty, pty.Master()
	} else {
		r, w, err := os.Pipe()
		if err != nil {
			return "", err
		}
		defer w.Close()
		s.Files, from = []*os.File{nil, w, w}, r
	}
	var mu sync.Mutex // the pump may still read for a child
	var out []byte
	read := pump.New
	if terminal {
		read = pump.Shared
	}
	p := read(from, func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		out = append(out, b...)
	})
	defer p.Close()
	h, err := o.Start(s)
	if err != nil {
		return "", err
	}
	h.Exit()
	p.Drain()
	mu.Lock()
	defer mu.Unlock()
	return string(out), nil
}

// Children that never stop writing do not delay the end of their parent's job.
func TestFloodDoesNotDelayTheEnd(t *testing.T) {
	for name, start := range map[string]func(testing.TB, *Owner, string, string) *job{"terminal": onTTY, "pipe": onPipe} {
		t.Run(name, func(t *testing.T) {
			o := newOwner(t)
			j := start(t, o, "job", `trap '' HUP; yes & yes & echo first; exit 4`)
			if got := ends(t, j.Handle); got.Code != 4 {
				t.Errorf("got %+v, want exit 4", got)
			}
			begin := time.Now()
			for range 10 {
				j.pump.Drain()
			}
			if d := time.Since(begin); d > patience {
				t.Errorf("ten drains took %v", d)
			}
			if !strings.Contains(j.output(), "first") {
				t.Error("output from before the end is missing")
			}
			if _, left := j.Settle(); len(left) != 2 { // bash or yes by now
				t.Errorf("left %v", left)
			}
			before := j.pump.Last()
			polltest.Until(t, "late output", func() bool { return j.pump.Last().After(before) })
		})
	}
}

// The pump of a terminal ends with the terminal's last holder, also if that is a child that
// outlives the program.
func TestPumpEndsWithTheLastHolder(t *testing.T) {
	o := newOwner(t)
	j := onTTY(t, o, "job", `trap '' HUP; (read; sleep 0.02; echo late) & exit`)
	ends(t, j.Handle)
	j.pty.CloseSlave()
	select {
	case <-j.pump.Done():
	case <-time.After(patience):
		t.Fatal("the pump has not ended")
	}
	if got := j.output(); got != "late\n" {
		t.Errorf("output %q", got)
	}
}
