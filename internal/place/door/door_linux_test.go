package door

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/place/far"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// openDoor returns the door of a key.
func openDoor(t *testing.T, temp string) *Door {
	t.Helper()
	d := must.Get(Open(temp, "key"))(t)
	t.Cleanup(func() { d.dir.Close() })
	return d
}

// public returns a directory in which every user can make files.
func public(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/tmp", "door"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o777|os.ModeSticky))
	return dir
}

// asAnother runs f as another user. Only the thread of f changes its user, and it ends with f.
func asAnother(t *testing.T, f func()) {
	t.Helper()
	needtest.Root(t, "become another user")
	done := make(chan struct{})
	go func() { // ends with f
		defer close(done)
		runtime.LockOSThread()
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); err != 0 {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

var greeting = far.Greeting{Protocol: far.Protocol, Version: "1.2.3", Machine: "m", Boot: "b", Start: "s"}

// accept listens, and accepts connections until the test ends.
func accept(t *testing.T, d *Door) *Listener {
	t.Helper()
	l := must.Get(d.Listen(greeting, slog.New(slog.DiscardHandler)))(t)
	ended := make(chan struct{})
	go func() { // ends with the listener
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return l
}

// The engine refuses the connections of other users.
func TestConnectionOfAnotherUserIsRefused(t *testing.T) {
	d := openDoor(t, public(t))
	l := accept(t, d)
	must.Do(t, os.Chmod(d.dir.Path(), 0o777))
	must.Do(t, os.Chmod(d.path(""), 0o777))
	asAnother(t, func() {
		c, err := net.Dial("unix", d.path(""))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if said, err := io.ReadAll(c); len(said) > 0 {
			t.Errorf("another user is told %q, %v", said, err)
		}
	})
	if v := l.Visits(); v.Total > 0 {
		t.Errorf("it counts: %+v", v)
	}
	c, g, err := d.Find(t.Context(), Search{Start: greeting.Start})
	if err != nil || g != greeting {
		t.Fatalf("our own connection: %+v, %v", g, err)
	}
	c.Close()
}

// The side of the carrier refuses a socket at which another user listens.
func TestSocketOfAnotherUserIsRefused(t *testing.T) {
	temp := public(t)
	d := openDoor(t, temp)
	theirs := filepath.Join(temp, "theirs")
	var l net.Listener
	asAnother(t, func() {
		var err error
		if l, err = net.Listen("unix", theirs); err != nil {
			t.Error(err)
		}
	})
	if l == nil {
		return
	}
	defer l.Close()
	must.Do(t, os.Rename(theirs, d.path("")))
	for _, s := range []Search{{}, {Start: "s"}} {
		if _, _, err := d.Find(t.Context(), s); err == nil || !strings.Contains(err.Error(), "user 65534 has connected") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// What is no engine is not joined, however much it says.
func TestGreetingsThatAreNone(t *testing.T) {
	for name, said := range map[string]string{
		"words":      "hello\n",
		"no newline": strings.Repeat("x", 1<<20),
		"no JSON":    far.Mark + "{\n",
		"no start":   far.Mark + "{}\n",
		"too long":   far.Mark + `{"start":"s","machine":"` + strings.Repeat("x", maxGreeting) + `"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			d := openDoor(t, t.TempDir())
			l := must.Get(net.Listen("unix", d.path("")))(t)
			ended := make(chan struct{})
			go func() { // ends with the connection
				defer close(ended)
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				io.WriteString(c, said)
				io.Copy(io.Discard, c)
			}()
			if _, _, err := d.Find(t.Context(), Search{}); err == nil || !strings.Contains(err.Error(), "what listens is no engine") || len(err.Error()) > 1000 {
				t.Errorf("Find: %v", err)
			}
			l.Close()
			<-ended
		})
	}
}

// The lock says whether an engine lives: not its socket, and not a file whose name was removed.
func TestLock(t *testing.T) {
	d := openDoor(t, t.TempDir())
	gone := func(want error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, _, err := d.Find(ctx, Search{Start: "s"}); !errors.Is(err, want) && (want != nil || err == nil || errors.Is(err, ErrGone)) {
			t.Errorf("Find: %v, want %v", err, want)
		}
	}
	gone(ErrGone) // there was none
	first := must.Get(d.take())(t)
	if _, err := d.take(); !errors.Is(err, errHeld) {
		t.Errorf("take again: %v", err)
	}
	gone(nil)
	must.Do(t, d.Taken(first))
	other := must.Get(os.Create(filepath.Join(t.TempDir(), "other")))(t)
	defer other.Close()
	if err := d.Taken(other); err == nil {
		t.Error("another file is the lock")
	}
	d.Leave()
	if err := d.Taken(first); err == nil {
		t.Error("a file without its name is the lock")
	}
	gone(ErrGone)
	second := must.Get(d.take())(t) // the first file is still locked
	defer second.Close()
	first.Close()
	gone(nil)
	began := time.Now()
	if _, err := d.Take(); err == nil || !strings.Contains(err.Error(), "async-repl dial") || time.Since(began) < askTime {
		t.Errorf("Take after %v: %v", time.Since(began), err)
	}
}

// Processes that start and end at any moment never have the lock of a key at once.
func TestOneHasTheLock(t *testing.T) {
	temp := t.TempDir()
	var having atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		d := openDoor(t, temp)
		all.Go(func() { // joined below; ends when it has had the lock often
			for had := 0; had < 50; {
				lock, err := d.take()
				if errors.Is(err, errHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := having.Add(1); n != 1 {
					t.Errorf("%d have the lock", n)
				}
				runtime.Gosched()
				having.Add(-1)
				d.Leave()
				lock.Close()
				had++
			}
		})
	}
	all.Wait()
}

// A process that only asks whether an engine lives keeps none from starting.
func TestTakeWaitsForThoseThatAsk(t *testing.T) {
	d := openDoor(t, t.TempDir())
	asks := must.Get(d.take())(t)
	must.Do(t, flock(asks, unix.LOCK_SH))
	taken := make(chan error)
	go func() { // ends with the lock
		f, err := d.Take()
		f.Close() // nil is fine
		taken <- err
	}()
	asks.Close()
	if err := <-taken; err != nil {
		t.Error(err)
	}
}

// An engine decides by its visits when it ends.
func TestVisitsAreCounted(t *testing.T) {
	d := openDoor(t, t.TempDir())
	l := must.Get(d.Listen(greeting, slog.New(slog.DiscardHandler)))(t)
	defer l.Close()
	if v := l.Visits(); v != (Visits{}) {
		t.Errorf("before the first: %+v", v)
	}
	c, _, err := find(t, d, l)
	if err != nil {
		t.Fatal(err)
	}
	<-l.Changed()
	if v := l.Visits(); v.Now != 1 || v.Total != 1 || !v.Left.IsZero() {
		t.Errorf("with one: %+v", v)
	}
	c.Close()
	c.Close() // counts once
	<-l.Changed()
	if v := l.Visits(); v.Now != 0 || v.Total != 1 || v.Left.IsZero() {
		t.Errorf("after it: %+v", v)
	}
}

// find connects, and returns the engine's side of the connection.
func find(t *testing.T, d *Door, l *Listener) (theirs net.Conn, ours *Conn, err error) {
	t.Helper()
	found := make(chan struct{})
	go func() { // ends with the connection
		defer close(found)
		ours, _, err = d.Find(t.Context(), Search{Start: greeting.Start})
	}()
	theirs = must.Get(l.Accept())(t)
	<-found
	if err == nil {
		t.Cleanup(func() { ours.Close() })
	}
	return theirs, ours, err
}

// A key is part of the names of files.
func TestKeys(t *testing.T) {
	temp := t.TempDir()
	for _, key := range []string{"", ".", "..", "a/b", "a.lock", "a\x00", "a\nb", strings.Repeat("x", maxKey+1)} {
		if d, err := Open(temp, key); err == nil {
			d.dir.Close()
			t.Errorf("%q can be used", key)
		}
	}
	for _, key := range []string{"a", "A-b_0", strings.Repeat("x", maxKey)} {
		d := must.Get(Open(temp, key))(t)
		d.dir.Close()
	}
}
