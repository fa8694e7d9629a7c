package tty

import (
	"strings"
	"testing"
)

func TestClock(t *testing.T) {
	p := start(t, []string{"cat"})
	pid := p.cmd.Process.Pid
	asleep := func() {
		t.Helper()
		waitFor(t, "cat to read", func() bool { _, ok := p.pty.Waiting([]int{pid}); return ok })
	}
	asleep()
	c := clock{pid: pid}
	if _, ok := c.ran(); !ok {
		t.Fatal("no clock")
	}
	for range 100 {
		if ran, ok := c.ran(); ran || !ok {
			t.Fatalf("ran, ok = %t, %t while the program sleeps", ran, ok)
		}
	}
	for range 20 {
		p.send(t, "x\n")
		asleep()
		if ran, ok := c.ran(); !ran || !ok {
			t.Fatalf("ran, ok = %t, %t after the program has read", ran, ok)
		}
	}
	p.cmd.Process.Kill()
	<-p.gone
	if _, ok := c.ran(); ok {
		t.Error("ok after the program's end")
	}
}

// TestClocksFollow: a process that is added, and one that has ended, are noticed.
func TestClocksFollow(t *testing.T) {
	p := start(t, []string{"bash", "-c", `echo first; read x; sleep 1000 & echo second; read y; kill $!; wait; echo third; read z`})
	var c clocks
	for i, known := range []int{1, 2, 1} {
		p.waitPrinted(t, []string{"first", "second", "third"}[i])
		waitFor(t, "bash to read", func() bool { _, ok := p.pty.Waiting(p.tree()); return ok })
		if i > 0 && !c.moved() {
			t.Errorf("step %d: bash has run, and nothing has moved", i)
		}
		if grew := c.follow(p.tree()); grew != (i < 2) {
			t.Errorf("step %d: grew = %t", i, grew)
		}
		if len(c.known) != known || c.count != known || c.blind {
			t.Errorf("step %d: %d known, %d counted, blind %t; want %d", i, len(c.known), c.count, c.blind, known)
		}
		if c.moved() {
			t.Errorf("step %d: moved while all sleep", i)
		}
		p.send(t, "\n")
	}
	if !strings.Contains(p.printed(), "third") {
		t.Error("not played to its end")
	}
}
