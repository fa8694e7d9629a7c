package sockets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

const identity = "0123456789abcdef01234567"

// openDir returns a directory for sockets in a new one.
func openDir(t *testing.T) *Dir {
	t.Helper()
	d := must.Get(Open(filepath.Join(t.TempDir(), "async-repl")))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// listen listens and answers each hello that can be read by answer. It returns the reasons why the
// others could not be.
func listen(t *testing.T, d *Dir, identity string, answer func(*Conn, Hello)) (Name, <-chan error) {
	t.Helper()
	l := must.Get(d.Listen(identity))(t)
	refused := make(chan error, 10)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				h, err := c.Hear("1.2.3")
				if err != nil {
					refused <- err
					return
				}
				defer h.Stderr.Close()
				answer(c, h)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return l.Name(), refused
}

func welcome(c *Conn, h Hello) {
	c.Welcome(Welcome{PID: os.Getpid(), Kept: h.Umask})
	io.Copy(c, c)
}

func TestDirectoryIsMadeForItsUserAlone(t *testing.T) {
	d := openDir(t)
	info := must.Get(os.Lstat(d.Path()))(t)
	if info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("the mode is %v", info.Mode())
	}
	again := must.Get(Open(d.Path()))(t)
	again.Close()
}

func TestDirectoryIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, above, path string) error
		want string
	}{
		"file":   {func(_ *testing.T, _, path string) error { return os.WriteFile(path, nil, 0o600) }, "is a file or a link"},
		"link":   {func(t *testing.T, _, path string) error { return os.Symlink(t.TempDir(), path) }, "is a file or a link"},
		"open":   {func(_ *testing.T, _, path string) error { return os.Mkdir(path, 0o755) }, "mode 755"},
		"closed": {func(_ *testing.T, _, path string) error { return os.Mkdir(path, 0o500) }, "mode 500"},
		"another user's": {func(t *testing.T, _, path string) error {
			needtest.Root(t, "give a directory away")
			return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 65534, 65534))
		}, "belongs to user 65534"},
		"replaceable by all":        {func(_ *testing.T, above, _ string) error { return os.Chmod(above, 0o777) }, "can be changed by other users"},
		"replaceable by a group":    {func(_ *testing.T, above, _ string) error { return os.Chmod(above, 0o770) }, "can be changed by other users"},
		"in another user's":         {func(t *testing.T, above, _ string) error { return giveAway(t, above, 0o755) }, "can be changed by other users"},
		"in another's sticky place": {func(t *testing.T, above, _ string) error { return giveAway(t, above, 0o777|fs.ModeSticky) }, "can be changed by other users"},
		"nowhere":                   {func(_ *testing.T, above, _ string) error { return os.Remove(above) }, "no such file"},
		"in a file": {func(_ *testing.T, above, _ string) error {
			return errors.Join(os.Remove(above), os.WriteFile(above, nil, 0o600))
		}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			above := must.Get(os.MkdirTemp(t.TempDir(), ""))(t)
			path := filepath.Join(above, "async-repl")
			must.Do(t, c.make(t, above, path))
			d, err := Open(path)
			if err == nil {
				d.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Open: %v, want %q", err, c.want)
			}
		})
	}
}

func giveAway(t *testing.T, dir string, mode fs.FileMode) error {
	needtest.Root(t, "give a directory away")
	return errors.Join(os.Chmod(dir, mode), os.Chown(dir, 65534, 65534))
}

func TestDirectoryInAStickyOne(t *testing.T) {
	above := t.TempDir()
	must.Do(t, os.Chmod(above, 0o777|fs.ModeSticky))
	d := must.Get(Open(filepath.Join(above, "async-repl")))(t)
	d.Close()
}

func TestFirstPlaceThatCanBeUsed(t *testing.T) {
	runtime, temp := filepath.Join(t.TempDir(), "vanished"), t.TempDir()
	places := Places(runtime, temp)
	want := []string{filepath.Join(runtime, "async-repl"), filepath.Join(temp, fmt.Sprintf("async-repl-%d", os.Getuid()))}
	if !slices.Equal(places, want) {
		t.Errorf("the places are %q, want %q", places, want)
	}
	d := must.Get(OpenFirst(places))(t)
	d.Close()
	if d.Path() != want[1] {
		t.Errorf("opened %s, want %s", d.Path(), want[1])
	}
	if got := Places("", temp); !slices.Equal(got, want[1:]) {
		t.Errorf("without XDG_RUNTIME_DIR the places are %q", got)
	}
	if got := Places("relative", ""); got != nil {
		t.Errorf("relative paths are places: %q", got)
	}
	if _, err := OpenFirst(nil); err == nil {
		t.Error("no place can be opened")
	}
}

func TestEnginesAreFoundByTheirNames(t *testing.T) {
	d := openDir(t)
	name, _ := listen(t, d, identity, welcome)
	for _, other := range []string{"rubbish", identity + "-", identity + "-0", identity + "-012", "short-12", identity + "-12.new"} {
		must.Do(t, os.WriteFile(filepath.Join(d.Path(), other), nil, 0o600))
	}
	if names, err := d.Names(); err != nil || !slices.Equal(names, []Name{name}) {
		t.Errorf("the names are %v, %v; want %v", names, err, name)
	}
	if name.String() != fmt.Sprintf("%s-%d", identity, os.Getpid()) {
		t.Errorf("the name is %s", name)
	}
}

func TestNameOfTheEngineLeftLastIsFirst(t *testing.T) {
	d := openDir(t)
	first := must.Get(d.Listen(strings.Repeat("1", identityLen)))(t)
	defer first.Close()
	second := must.Get(d.Listen(strings.Repeat("2", identityLen)))(t)
	defer second.Close()
	hourAgo := time.Now().Add(-time.Hour)
	must.Do(t, os.Chtimes(filepath.Join(d.Path(), first.Name().String()), hourAgo, hourAgo))
	if names := must.Get(d.Names())(t); len(names) != 2 || names[0] != second.Name() {
		t.Errorf("the names are %v", names)
	}
	must.Do(t, os.Chtimes(filepath.Join(d.Path(), second.Name().String()), hourAgo, hourAgo))
	first.Touch()
	if names := must.Get(d.Names())(t); len(names) != 2 || names[0] != first.Name() {
		t.Errorf("after a client has left the first one, the names are %v", names)
	}
}

// die leaves a name at which no process listens.
func die(t *testing.T, d *Dir, name Name) {
	t.Helper()
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: d.At(name.String()), Net: "unix"}))(t)
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestNameOfADeadEngineIsRemoved(t *testing.T) {
	d := openDir(t)
	dead := Name{identity, 4194305}
	die(t, d, dead)
	for range 2 { // the second time the name is not there
		if _, _, err := d.Dial(t.Context(), dead, Hello{}); !errors.Is(err, ErrGone) {
			t.Errorf("Dial: %v", err)
		}
	}
	if names := must.Get(d.Names())(t); len(names) > 0 {
		t.Errorf("the names are %v", names)
	}
}

// Names of engines that no front looks for don't pile up.
func TestListenRemovesDeadNames(t *testing.T) {
	d := openDir(t)
	living, _ := listen(t, d, strings.Repeat("1", identityLen), welcome)
	die(t, d, Name{identity, 4194305})
	l := must.Get(d.Listen(strings.Repeat("2", identityLen)))(t)
	defer l.Close()
	if names := must.Get(d.Names())(t); len(names) != 2 || !slices.Contains(names, living) || !slices.Contains(names, l.Name()) {
		t.Errorf("the names are %v", names)
	}
}

// A process can be killed between the two steps of Listen.
func TestUnfinishedNamesAreRemoved(t *testing.T) {
	d := openDir(t)
	old, young := Name{identity, 4194305}.String()+unfinished, Name{identity, 4194306}.String()+unfinished
	own := Name{identity, os.Getpid()}.String() + unfinished
	for _, name := range []string{old, young, own} {
		must.Do(t, os.WriteFile(filepath.Join(d.Path(), name), nil, 0o600))
	}
	must.Do(t, os.Chtimes(filepath.Join(d.Path(), old), time.Time{}, time.Now().Add(-2*time.Minute)))
	l := must.Get(d.Listen(identity))(t)
	var got []string
	for _, e := range must.Get(os.ReadDir(d.Path()))(t) {
		got = append(got, e.Name())
	}
	if want := []string{l.Name().String(), young}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("the files are %q, want %q", got, want)
	}
	l.Close()
	l.Close()
	if names := must.Get(d.Names())(t); len(names) > 0 {
		t.Errorf("after Close the names are %v", names)
	}
}

func TestLongPath(t *testing.T) {
	above := t.TempDir()
	for len(above) < 400 {
		above = filepath.Join(above, strings.Repeat("x", 50))
	}
	must.Do(t, os.MkdirAll(above, 0o700))
	d := must.Get(Open(filepath.Join(above, "async-repl")))(t)
	defer d.Close()
	name, _ := listen(t, d, identity, welcome)
	c, w, err := d.Dial(t.Context(), name, Hello{Umask: 9})
	if err != nil || w.Kept != 9 {
		t.Fatalf("Dial: %+v, %v", w, err)
	}
	c.Close()
}

func TestTwentyListenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "async-repl")
	begin := make(chan struct{})
	var starting sync.WaitGroup
	for i := range 20 {
		starting.Go(func() {
			<-begin
			d, err := Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { d.Close() })
			die(t, d, Name{identity, 4194305 + i})
			name, _ := listen(t, d, fmt.Sprintf("%0*x", identityLen, i), welcome)
			c, w, err := d.Dial(t.Context(), name, Hello{Umask: i})
			if err != nil || w.Kept != i {
				t.Errorf("%d: %+v, %v", i, w, err)
				return
			}
			c.Close()
			if _, _, err := d.Dial(t.Context(), Name{identity, 4194305 + i}, Hello{}); !errors.Is(err, ErrGone) {
				t.Errorf("%d: dialing a dead engine: %v", i, err)
			}
		})
	}
	close(begin)
	starting.Wait()
	d := must.Get(Open(path))(t)
	defer d.Close()
	if names := must.Get(d.Names())(t); len(names) != 20 {
		t.Errorf("%d engines listen", len(names))
	}
}

func TestHelloIsHeard(t *testing.T) {
	d := openDir(t)
	heard := make(chan Hello, 1)
	name, _ := listen(t, d, identity, func(c *Conn, h Hello) {
		if h.Stderr != nil {
			io.WriteString(h.Stderr, "from the engine")
		}
		heard <- h
		welcome(c, h)
	})
	read, write := must.Get2(os.Pipe())(t)
	defer read.Close()
	long := strings.Repeat("x", 300<<10) // longer than a socket takes at once
	c, _, err := d.Dial(t.Context(), name, Hello{
		Role: Client, Env: []string{"A=" + long}, Umask: 0o27, Grace: time.Second, Toolsets: []string{"core"}, Stderr: write,
	})
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := <-heard
	if h.Role != Client || len(h.Env) != 1 || h.Env[0] != "A="+long || h.Umask != 0o27 || h.Grace != time.Second || !slices.Equal(h.Toolsets, []string{"core"}) {
		t.Errorf("heard role %q, umask %o, grace %v, toolsets %q, %d variables", h.Role, h.Umask, h.Grace, h.Toolsets, len(h.Env))
	}
	io.WriteString(c, "one\ntwo\n") // the stream after the hello
	c.CloseWrite()
	if echo, err := io.ReadAll(c); string(echo) != "one\ntwo\n" || err != nil {
		t.Errorf("read %q, %v", echo, err)
	}
	if log, err := io.ReadAll(read); string(log) != "from the engine" || err != nil {
		t.Errorf("the file that was sent got %q, %v", log, err)
	}
}

// A front writes its first request behind the hello and does not wait for the answer.
func TestLinesBehindTheHelloAreKept(t *testing.T) {
	d := openDir(t)
	name, _ := listen(t, d, identity, welcome)
	c := newConn(dial(t, d, name))
	defer c.Close()
	io.WriteString(c, `{"Protocol":1,"Role":"client"}`+"\n{}\n")
	must.Get(c.answer())(t)
	line := make([]byte, 3)
	if _, err := io.ReadFull(c, line); err != nil || string(line) != "{}\n" {
		t.Errorf("read %q, %v", line, err)
	}
}

func dial(t *testing.T, d *Dir, name Name) *net.UnixConn {
	t.Helper()
	return must.Get(net.DialUnix("unix", nil, &net.UnixAddr{Name: d.At(name.String()), Net: "unix"}))(t)
}

func TestBadHellosAreRefused(t *testing.T) {
	d := openDir(t)
	for name, c := range map[string]struct {
		say    func(c *net.UnixConn)
		answer string
	}{
		"silence":         {func(*net.UnixConn) {}, "refused: no hello came within 2s\n"},
		"half a hello":    {func(c *net.UnixConn) { io.WriteString(c, `{"Protocol":1,`) }, "refused: no hello came within 2s\n"},
		"a cut hello":     {func(c *net.UnixConn) { io.WriteString(c, `{"Protocol":1,`); c.CloseWrite() }, "refused: the connection ended within its first line\n"},
		"no JSON":         {func(c *net.UnixConn) { io.WriteString(c, "GET / HTTP/1.1\r\n\r\n") }, "refused: the first line is not the hello of this program: \"GET / HTTP/1.1\\r\"\n"},
		"MCP":             {func(c *net.UnixConn) { io.WriteString(c, `{"jsonrpc":"2.0"}`+"\n") }, "refused: the first line is not the hello of this program: \"{\\\"jsonrpc\\\":\\\"2.0\\\"}\"\n"},
		"other protocol":  {func(c *net.UnixConn) { io.WriteString(c, `{"Protocol":7,"Env":{"now":"an object"}}`+"\n") }, "protocol 1 1.2.3\n"},
		"wrong types":     {func(c *net.UnixConn) { io.WriteString(c, `{"Protocol":1,"Env":7}`+"\n") }, "refused: the hello can't be read: "},
		"a hello of 1GiB": {func(c *net.UnixConn) { endless(t, c) }, "refused: the first line has more than 1048576 bytes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := must.Get(Open(d.Path()))(t)
			defer own.Close()
			at, refused := listen(t, own, (fmt.Sprintf("%x", name) + identity)[:identityLen], welcome)
			conn := dial(t, own, at)
			defer conn.Close()
			began := time.Now()
			c.say(conn)
			got, _ := io.ReadAll(conn) // the error says that not all was read
			if answer := string(got); !strings.HasPrefix(answer, c.answer) || strings.Count(answer, "\n") != 1 {
				t.Errorf("the answer is %q, want %q", answer, c.answer)
			}
			if took := time.Since(began); took > HelloTime+time.Second {
				t.Errorf("it took %v", took)
			}
			if err := <-refused; err == nil {
				t.Error("the engine has no reason")
			}
		})
	}
}

// endless says a hello of 1 GiB until the engine has enough of it.
func endless(t *testing.T, c *net.UnixConn) {
	part := bytes.Repeat([]byte("x"), 64<<10)
	for said := 0; said < 1<<30; said += len(part) {
		if _, err := c.Write(part); err != nil {
			if said > 8<<20 {
				t.Errorf("%d bytes were taken", said)
			}
			return
		}
	}
	t.Error("all was taken")
}

func TestAnswersOfAnEngine(t *testing.T) {
	d := openDir(t)
	for name, c := range map[string]struct {
		answer func(*Conn, Hello)
		check  func(error) bool
	}{
		"busy":     {func(c *Conn, _ Hello) { c.Busy() }, func(err error) bool { return errors.Is(err, ErrBusy) }},
		"refused":  {func(c *Conn, _ Hello) { c.Refuse("two\nlines") }, func(err error) bool { return err.Error() == "two lines" }},
		"ended":    {func(*Conn, Hello) {}, func(err error) bool { return errors.Is(err, ErrGone) }},
		"rubbish":  {func(c *Conn, _ Hello) { io.WriteString(c, "hi\n") }, func(err error) bool { return strings.Contains(err.Error(), `"hi"`) }},
		"no line":  {func(c *Conn, _ Hello) { c.Write(bytes.Repeat([]byte("x"), maxAnswer+1)) }, func(err error) bool { return err != nil }},
		"protocol": {func(c *Conn, _ Hello) { io.WriteString(c, "protocol 2 7.8.9\n") }, func(err error) bool { return err == OtherProtocol("7.8.9") }},
		"silence":  {func(c *Conn, _ Hello) { c.SetDeadline(time.Time{}); io.Copy(io.Discard, c) }, func(err error) bool { return strings.Contains(err.Error(), "within 2s") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := must.Get(Open(d.Path()))(t)
			defer own.Close()
			at, _ := listen(t, own, (fmt.Sprintf("%x", name) + identity)[:identityLen], c.answer)
			began := time.Now()
			conn, _, err := own.Dial(t.Context(), at, Hello{Role: Client})
			if err == nil {
				conn.Close()
				t.Fatal("the connection was accepted")
			}
			if !c.check(err) {
				t.Errorf("Dial: %v", err)
			}
			if took := time.Since(began); took > HelloTime+time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestDialCanBeCancelled(t *testing.T) {
	d := openDir(t)
	heard := make(chan struct{})
	name, _ := listen(t, d, identity, func(c *Conn, _ Hello) {
		close(heard)
		io.Copy(io.Discard, c)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-heard
		cancel()
	}()
	began := time.Now()
	if _, _, err := d.Dial(ctx, name, Hello{}); err == nil || time.Since(began) > HelloTime {
		t.Errorf("Dial: %v after %v", err, time.Since(began))
	}
}

// An environment that no engine would read is refused before it is sent.
func TestHelloIsNotTooLong(t *testing.T) {
	d := openDir(t)
	name, _ := listen(t, d, identity, welcome)
	_, _, err := d.Dial(t.Context(), name, Hello{Env: []string{"A=" + strings.Repeat("x", maxHello)}})
	if err == nil || !strings.Contains(err.Error(), "the environment has") {
		t.Errorf("Dial: %v", err)
	}
}

// An engine asks only those of its own workspace: a question wakes the process that it goes to.
func TestOthersAreThoseOfTheWorkspace(t *testing.T) {
	d := openDir(t)
	asked := make(chan string, 10)
	other := func(workspace, config string) string {
		identity := must.Get(Identity(workspace, "", "", config))(t)
		at, _ := listen(t, d, identity, func(c *Conn, h Hello) {
			asked <- workspace
			welcome(c, h)
		})
		// The engines of this test are one process, and the one that asks leaves itself out.
		must.Do(t, os.Rename(filepath.Join(d.Path(), at.String()), filepath.Join(d.Path(), Name{identity, os.Getppid()}.String())))
		return identity
	}
	workspace, another := t.TempDir(), t.TempDir()
	same := other(workspace, "other settings")
	other(another, "")
	s := Surroundings{Places: []string{d.Path()}, Search: []string{d.Path()}, Identity: func() (string, error) { return Identity(workspace, "", "", "") }}
	var found []string
	s.Others(t.Context(), func(name Name, _ Welcome) { found = append(found, name.Identity) })
	if !slices.Equal(found, []string{same}) {
		t.Errorf("found %q, not only %q", found, same)
	}
	if at := <-asked; at != workspace || len(asked) > 0 {
		t.Errorf("one in %q and %d more were asked", at, len(asked))
	}
}

func TestIdentity(t *testing.T) {
	type config struct{ Shell string }
	workspace, other := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(workspace, link))
	same := must.Get(Identity(workspace, "/v", "/c", config{"/bin/sh"}))(t)
	if len(same) != identityLen {
		t.Errorf("the identity is %q", same)
	}
	if again := must.Get(Identity(link, "/v", "/c", config{"/bin/sh"}))(t); again != same {
		t.Error("a link to the workspace is another one")
	}
	seen := map[string]bool{same: true}
	for _, parts := range [][]string{{other, "/v", "/c", "/bin/sh"}, {workspace, "", "/c", "/bin/sh"}, {workspace, "/v", "", "/bin/sh"}, {workspace, "/v", "/c", "/bin/bash"}, {workspace + "/missing", "/v", "/c", "/bin/sh"}} {
		got := must.Get(Identity(parts[0], parts[1], parts[2], config{parts[3]}))(t)
		if seen[got] {
			t.Errorf("%q is not told from another", parts)
		}
		seen[got] = true
	}
}
