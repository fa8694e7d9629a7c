//go:build linux

package channel

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

const identity = "0123456789abcdef01234567"

// A world is a channel, and the directory of the sockets outside.
type world struct {
	outer  *Outer
	inner  *Inner
	places []string
	served chan error
}

// begin returns a world without an inner end, and the file for that.
func begin(t *testing.T, b Birth) (*world, *os.File) {
	t.Helper()
	w := &world{places: []string{filepath.Join(t.TempDir(), "async-repl")}, served: make(chan error, 1)}
	around := sockets.Surroundings{Places: w.places, Search: w.places, Identity: func() (string, error) { return identity, nil }}
	var err error
	var end *os.File
	w.outer, end, err = New(around)
	must.Do(t, err)
	go func() { w.served <- w.outer.Serve(b) }() // ends with the outer end
	t.Cleanup(func() {
		w.outer.Close()
		<-w.served
	})
	return w, end
}

func start(t *testing.T, b Birth) *world {
	t.Helper()
	w, end := begin(t, b)
	w.inner = must.Get(Join(end, polltest.Patience))(t)
	t.Cleanup(func() { w.inner.Close() })
	return w
}

func TestBirthOfAnySize(t *testing.T) {
	b := Birth{Version: "1", Self: sockets.Name{Identity: "a", PID: 7}, Removed: []string{"TOKEN"}}
	for range 50_000 {
		b.Seals = append(b.Seals, sandbox.Seal{Path: "/some/path/of/a/repository", Inode: 1})
	}
	w := start(t, b)
	if got := w.inner.Birth; got.Version != "1" || got.Self != b.Self || len(got.Seals) != len(b.Seals) || got.Removed[0] != "TOKEN" {
		t.Errorf("got %v and %d seals", got.Self, len(got.Seals))
	}
	select {
	case <-w.outer.Born():
		t.Error("the engine has not said that it runs")
	default:
	}
	must.Do(t, w.inner.Born(nil))
	<-w.outer.Born()
	if w.outer.Proxy() != nil {
		t.Error("there is no proxy")
	}
}

// The listener of the proxy is accepted from outside.
func TestProxyListener(t *testing.T) {
	w := start(t, Birth{})
	l := must.Get(net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	must.Do(t, w.inner.Born(l))
	address := l.Addr().String()
	l.Close()
	<-w.outer.Born()
	defer w.outer.Proxy().Close()
	c := must.Get(net.Dial("tcp", address))(t)
	defer c.Close()
	must.Get(w.outer.Proxy().Accept())(t).Close()
}

func TestClientsReachTheEngine(t *testing.T) {
	w := start(t, Birth{Self: sockets.Name{Identity: identity, PID: 7}})
	door := must.Get(w.inner.Listen())(t)
	if !door.Found() {
		t.Error("the name is not there")
	}
	dir := must.Get(sockets.Open(w.places[0]))(t)
	defer dir.Close()
	names := must.Get(dir.Names())(t)
	if len(names) != 1 || names[0].PID != os.Getpid() {
		t.Fatalf("the names are %v", names)
	}
	for range 20 {
		said := make(chan error, 1)
		go func() { // ends with the answer
			_, welcome, err := dir.Dial(t.Context(), names[0], sockets.Hello{Role: sockets.Person})
			if err == nil && welcome.Version != "2" {
				err = errors.New(welcome.Version)
			}
			said <- err
		}()
		c := must.Get(door.Accept())(t)
		must.Get(c.Hear("2"))(t)
		must.Do(t, c.Welcome(sockets.Welcome{Version: "2"}))
		must.Do(t, <-said)
		c.Close()
	}
	must.Do(t, os.Remove(filepath.Join(w.places[0], names[0].String())))
	if door.Found() {
		t.Error("the name was removed")
	}
	must.Do(t, door.Close())
	if _, err := door.Accept(); err == nil {
		t.Error("a closed door accepts")
	}
	must.Get(w.inner.Listen())(t)
	if names = must.Get(dir.Names())(t); len(names) != 1 {
		t.Errorf("the names are %v", names)
	}
	w.inner.Close()
	polltest.Until(t, "the end of the name", func() bool { return len(must.Get(dir.Names())(t)) == 0 })
}

// The error of the outer process is that of the engine.
func TestListenFails(t *testing.T) {
	w := start(t, Birth{})
	must.Do(t, os.WriteFile(w.places[0], nil, 0o600))
	if _, err := w.inner.Listen(); err == nil || !strings.Contains(err.Error(), "should be a directory") {
		t.Errorf("got %v", err)
	}
}

// Only engines of the workspace are reported.
func TestOthers(t *testing.T) {
	w := start(t, Birth{})
	dir := must.Get(sockets.Open(w.places[0]))(t)
	defer dir.Close()
	l := must.Get(dir.Listen(identity[:len(identity)-1] + "b"))(t)
	defer l.Close()
	// The listener has the pid of the outer end, which is in the same process here, so its own name is
	// left out.
	called := false
	w.inner.Others(t.Context(), func(sockets.Name, sockets.Welcome) { called = true })
	if called {
		t.Error("it has told of the engine itself")
	}
}

func TestEnding(t *testing.T) {
	w := start(t, Birth{})
	must.Do(t, w.outer.End())
	<-w.inner.Ending()
	must.Do(t, w.outer.End()) // a second signal changes nothing
	if w.inner.Gone() {
		t.Error("the outer end is there")
	}
	w.outer.Close()
	if !w.inner.Gone() {
		t.Error("the outer end is closed")
	}
	<-w.inner.Done()
	if _, err := w.inner.Listen(); err == nil {
		t.Error("nothing listens any more")
	}
}

func TestDenials(t *testing.T) {
	w := start(t, Birth{})
	want := Denial{Target: "CONNECT evil.example:443", Port: 7}
	noted := make(chan Denial, 1)
	go w.inner.Denials(func(d Denial) { noted <- d }) // ends with the channel
	must.Do(t, w.outer.Denied(t.Context(), want))
	if got := <-noted; got != want {
		t.Errorf("got %v", got)
	}
}

// Connections of the relay are distinguished from those of clients, and are closed with the channel.
func TestRelay(t *testing.T) {
	w := start(t, Birth{})
	l := w.inner.Relayed()
	for range 20 {
		ours := must.Get(w.outer.Dial(t.Context()))(t)
		theirs := must.Get(l.Accept())(t)
		must.Get(ours.Write([]byte("x")))(t)
		must.Get(theirs.Read(make([]byte, 1)))(t)
		theirs.Close()
		if n, err := ours.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("got %d, %v", n, err)
		}
		ours.Close()
	}
	waits := must.Get(w.outer.Dial(t.Context()))(t) // the engine does not accept it
	w.outer.Close()
	if n, err := waits.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("there is no relay any more")
	}
	if _, err := w.outer.Dial(t.Context()); err == nil {
		t.Error("there is no engine any more")
	}
}

// An engine that notes nothing holds no connection longer than its context.
func TestDenialsOfAnEngineThatHangs(t *testing.T) {
	w := start(t, Birth{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		w.outer.Denied(ctx, Denial{})
	}
	w.outer.end.mu.Lock()
	defer w.outer.end.mu.Unlock()
	if len(w.outer.waiting) > 0 {
		t.Errorf("%d answers are awaited", len(w.outer.waiting))
	}
}

// What jobs can send ends neither the outer process nor a later request.
func TestHostileEngine(t *testing.T) {
	w, end := begin(t, Birth{})
	fd := int(end.Fd())
	defer end.Close()
	secret := must.Get(os.Open(os.DevNull))(t)
	defer secret.Close()
	open := len(must.Get(os.ReadDir("/proc/self/fd"))(t))
	many := unix.UnixRights(fd, fd, int(secret.Fd()), fd)
	for _, text := range []string{
		"\x00", "{", `[]`, `"x"`, `{"Answer":1}`, `{"Answer":-1,"Error":"x"}`, `{"Request":1,"Kind":"birth"}`,
		`{"Request":1,"Kind":"end"}`, `{"Request":-1,"Kind":"listen"}`, `{"Kind":"client"}`, `{"Kind":"../../x"}`,
		`{"Request":2,"Kind":"found","Data":{"a":[1]}}`, `{"Request":99999999999999999999,"Kind":"found"}`,
		`{"Kind":"born"}`, `{"Kind":"born"}`, `{"Kind":"touch"}`, `{"Kind":"others"}`, `{"Kind":"others"}`,
		strings.Repeat("[", maxMessage), strings.Repeat("x", 2*maxMessage), `{"Kind":"` + strings.Repeat("k", maxMessage-100) + `"}`,
	} {
		for _, rights := range [][]byte{nil, unix.UnixRights(int(secret.Fd())), many} {
			must.Do(t, unix.Sendmsg(fd, []byte(text), rights, nil, 0))
		}
	}
	must.Do(t, unix.Sendmsg(fd, []byte(`{"Request":77,"Kind":"found"}`), nil, nil, 0))
	buffer := make([]byte, maxMessage)
	for !bytes.Contains(buffer, []byte(`"Answer":77`)) {
		clear(buffer)
		must.Get(unix.Read(fd, buffer))(t)
	}
	<-w.outer.Born()
	polltest.Until(t, "the descriptors", func() bool { return len(must.Get(os.ReadDir("/proc/self/fd"))(t)) <= open+5 }) // the rest are those of a door
}

// A flood of requests whose answers are not read stops no more than the channel.
func TestFloodOfRequests(t *testing.T) {
	w, end := begin(t, Birth{})
	fd := int(end.Fd())
	must.Get(unix.Read(fd, make([]byte, 100)))(t) // the birth
	before := runtime.NumGoroutine()
	for range 100_000 {
		if unix.Sendmsg(fd, []byte(`{"Request":1,"Kind":"others"}`), nil, nil, unix.MSG_DONTWAIT) == unix.EAGAIN {
			break // it no longer reads, because its answers are not read
		}
	}
	if n := runtime.NumGoroutine(); n > before+10 {
		t.Errorf("there are %d goroutines, and were %d", n, before)
	}
	end.Close()
	select {
	case <-w.outer.Done():
	case <-time.After(polltest.Patience):
		t.Error("the outer end does not see the end of the engine")
	}
}
