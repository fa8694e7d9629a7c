//go:build unix

package stdin_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/terminal/stdin"
	"asyncrepl/internal/test/must"
)

func open(t *testing.T) (*stdin.Pipe, *os.File) {
	t.Helper()
	p, theirs := must.Get2(stdin.Open())(t)
	t.Cleanup(func() { p.Close(); theirs.Close() })
	return p, theirs
}

// unread reports whether there is anything to read.
func unread(t *testing.T, f *os.File) bool {
	t.Helper()
	c := must.Get(f.SyscallConn())(t)
	n := 0
	c.Control(func(fd uintptr) { n = must.Get(pump.Buffered(int(fd)))(t) })
	return n > 0
}

// The listener learns of a Send before there is anything to read, and again at its end.
func TestSendIsAnnouncedBeforeItIsSeen(t *testing.T) {
	p, theirs := open(t)
	var seen []bool
	p.OnSend(func() { seen = append(seen, unread(t, theirs)) })
	must.Do(t, p.Send(t.Context(), "x", false))
	if len(seen) != 2 || seen[0] || !seen[1] {
		t.Errorf("announced with %+v", seen)
	}
	if p.Sending() {
		t.Error("a Send is in progress after it has ended")
	}
	p.OnSend(nil)
	p.Send(t.Context(), "y", false)
	if len(seen) != 2 {
		t.Error("a listener that has left was called")
	}
}

func TestUnreadIsWhatNoProgramHasRead(t *testing.T) {
	p, theirs := open(t)
	for _, step := range []struct {
		do   func()
		want bool
	}{
		{func() {}, false},
		{func() { p.Send(t.Context(), "x", false) }, true},
		{func() { theirs.Read(make([]byte, 9)) }, false},
		{func() { p.Send(t.Context(), "", true) }, true}, // a read finds the end of file
	} {
		if step.do(); p.Unread() != step.want {
			t.Errorf("unread: %t, want %t", p.Unread(), step.want)
		}
	}
}

// Both ends have the identity of the pipe, and another pipe has not.
func TestPipeIsIdentified(t *testing.T) {
	p, theirs := open(t)
	other, _ := open(t)
	var st unix.Stat_t
	c := must.Get(theirs.SyscallConn())(t)
	c.Control(func(fd uintptr) { must.Do(t, unix.Fstat(int(fd), &st)) })
	if !p.Is(&st) || other.Is(&st) {
		t.Errorf("its own: %t, another: %t", p.Is(&st), other.Is(&st))
	}
}

func TestFullPipeTakesWhatFits(t *testing.T) {
	p, _ := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := p.Send(ctx, strings.Repeat("x", 1<<20), false)
	const want = " of 1048576 bytes were taken, for the program does not read: send the rest when it does"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v", err)
	}
}
