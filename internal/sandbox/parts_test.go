//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

func goesOn() bool { return false }

const (
	week = 7 * 24 * time.Hour
	ages = 100 * 365 * 24 * time.Hour
)

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// sandboxed makes a Box of a world with another identity.
func (w *world) sandboxed(t *testing.T, identity string) *sandbox.Box {
	t.Helper()
	c := w.config()
	c.Identity = identity
	return must.Get(sandbox.New(c))(t)
}

// unused makes the directory of a sandbox that was used last so long ago, with so many KiB in its cache and in
// its records.
func (w *world) unused(t *testing.T, identity string, ago time.Duration, cache, records int) {
	t.Helper()
	must.Do(t, w.sandboxed(t, identity).Close())
	w.write(t, w.path("state/sandbox", identity, "cache/pip/wheel"), strings.Repeat("x", cache<<10))
	w.write(t, w.path("state/sandbox", identity, "state/runs/w/r/journal.jsonl"), strings.Repeat("x", records<<10))
	w.used(t, identity, ago)
}

// used makes the time of the last use of the directory of a sandbox another.
func (w *world) used(t *testing.T, identity string, ago time.Duration) {
	t.Helper()
	at := time.Now().Add(-ago)
	must.Do(t, os.Chtimes(w.path("state/sandbox", identity, "tmp"), at, at))
}

// Directories of sandboxes go when no server has used them for the age of records, or if they take too much:
// first the caches of those that were used longest ago. One that a server uses stays, whatever it takes.
func TestEvict(t *testing.T) {
	w := newWorld(t, os.Getuid())
	state := w.path("state")
	w.unused(t, "old", week+time.Hour, 1, 1)
	w.unused(t, "first", 3*time.Hour, 300, 200)
	w.unused(t, "second", 2*time.Hour, 300, 200)
	w.unused(t, "living", ages, 1000, 1000)
	living := w.sandboxed(t, "living")
	w.used(t, "living", ages)
	w.write(t, w.path("state/sandbox/note"), "of a person")
	w.write(t, w.path("state/runs/kept"), "of other servers")
	for _, step := range []struct {
		most int64
		want []string
	}{
		{math.MaxInt64, []string{"first/cache/pip", "first/state", "living", "second/cache/pip", "second/state"}},
		{900 << 10, []string{"first/state", "living", "second/cache/pip", "second/state"}},
		{500 << 10, []string{"first/state", "living", "second/state"}},
		{300 << 10, []string{"living", "second/state"}},
		{0, []string{"living"}},
	} {
		must.Do(t, sandbox.Evict(state, week, step.most, goesOn))
		var got []string
		for _, pattern := range []string{"*/cache/pip", "*/state/runs/w/r/journal.jsonl"} {
			for _, path := range must.Get(filepath.Glob(w.path("state/sandbox", pattern)))(t) {
				name := strings.TrimPrefix(path, w.path("state/sandbox")+"/")
				name = strings.TrimSuffix(name, "/runs/w/r/journal.jsonl")
				if strings.HasPrefix(name, "living/") {
					name = "living"
				}
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, step.want) {
			t.Errorf("with %d bytes there are %q, want %q", step.most, got, step.want)
		}
	}
	if got := sandbox.Identities(state); !slices.Equal(got, []string{"living"}) || !exists(w.path("state/sandbox/living/cache/pip/wheel")) || !exists(w.path("state/sandbox/note")) || !exists(w.path("state/runs/kept")) {
		t.Errorf("there are %q", got)
	}
	again := w.sandboxed(t, "old")
	must.Do(t, living.Close())
	must.Do(t, sandbox.Evict(state, week, math.MaxInt64, goesOn))
	if got := sandbox.Identities(state); !slices.Equal(got, []string{"living", "old"}) {
		t.Errorf("there are %q: a server used one until now, and uses the other", got)
	}
	must.Do(t, again.Close())
}

// An eviction that is stopped removes nothing by halves: a later one continues.
func TestStoppedEviction(t *testing.T) {
	w := newWorld(t, os.Getuid())
	w.unused(t, "x", ages, 1, 1)
	for i := range 50 {
		w.write(t, w.path("state/sandbox/x/cache", strconv.Itoa(i)), "")
	}
	w.used(t, "x", ages)
	calls := 0
	err := sandbox.Evict(w.path("state"), week, math.MaxInt64, func() bool { calls++; return calls > 20 })
	if err == nil || sandbox.Identities(w.path("state")) != nil || !exists(w.path("state/sandbox/x.removed")) {
		t.Errorf("got %v", err)
	}
	must.Do(t, w.sandboxed(t, "x").Close())
	must.Do(t, sandbox.Evict(w.path("state"), week, math.MaxInt64, goesOn))
	if exists(w.path("state/sandbox/x.removed")) || !exists(w.path("state/sandbox/x")) {
		t.Error("what was being removed is left, or what is new is not")
	}
}

// A server that was killed has used its directory until another one notices, and its /tmp goes then.
func TestEvictAfterAKilledServer(t *testing.T) {
	w := newWorld(t, os.Getuid())
	c := w.config()
	say, kill := w.conversation(t, c)
	say("echo x > /tmp/big; mkdir ~/.cache/x")
	w.used(t, c.Identity, ages)
	kill()
	polltest.Until(t, "its /tmp is gone", func() bool {
		must.Do(t, sandbox.Evict(w.path("state"), week, math.MaxInt64, goesOn))
		return len(must.Get(filepath.Glob(w.path("state/sandbox/*/tmp/*")))(t)) == 0
	})
	if !exists(w.path("state/sandbox", c.Identity, "cache/x")) {
		t.Error("what it left is removed at once")
	}
	w.used(t, c.Identity, week+time.Hour)
	must.Do(t, sandbox.Evict(w.path("state"), week, math.MaxInt64, goesOn))
	if got := sandbox.Identities(w.path("state")); got != nil {
		t.Errorf("there are %q", got)
	}
}

// A server can start while its directory is removed.
func TestStartDuringAnEviction(t *testing.T) {
	w := newWorld(t, os.Getuid())
	for range 200 {
		w.unused(t, "x", ages, 1, 1)
		evicted := make(chan error)
		go func() { evicted <- sandbox.Evict(w.path("state"), week, math.MaxInt64, goesOn) }() // ends with the eviction, which is waited for
		box := w.sandboxed(t, "x")
		w.write(t, filepath.Join(box.State, "mine"), "")
		must.Do(t, <-evicted)
		must.Do(t, sandbox.Evict(w.path("state"), 0, 0, goesOn))
		if !exists(filepath.Join(box.State, "mine")) {
			t.Fatal("what a server uses is removed")
		}
		must.Do(t, box.Close())
		must.Do(t, os.RemoveAll(w.path("state/sandbox")))
	}
}

// partEvict removes all directories of sandboxes in args[0], with no more than 256 descriptors. If there is
// another argument, it removes them with os.RemoveAll.
func partEvict(args []string) int {
	limit := unix.Rlimit{Cur: 256, Max: 256}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fail(err)
	}
	if len(args) > 1 {
		return fail(os.RemoveAll(filepath.Join(args[0], "sandbox")))
	}
	return fail(sandbox.Evict(args[0], 0, 0, goesOn))
}

// evict runs partEvict as the user of the world.
func (w *world) evict(t *testing.T, args ...string) error {
	t.Helper()
	cmd := exec.Command(self, append([]string{"part-evict", w.path("state")}, args...)...)
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	if w.UID != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.UID), Gid: uint32(w.UID)}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%v: %s", err, out)
	}
	return err
}

// nest makes directories of the user of a world in one another, deeper than a path can name.
func (w *world) nest(t *testing.T, path string, depth int) {
	t.Helper()
	fd := must.Get(unix.Open(path, unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	for range depth {
		must.Do(t, errors.Join(unix.Mkdirat(fd, "d", 0o700), unix.Fchownat(fd, "d", w.UID, w.UID, 0)))
		next := must.Get(unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

// Whatever jobs have made in it, the directory of a sandbox can be removed, and nothing else is.
func TestRemovalOfHostileDirectories(t *testing.T) {
	const deep = 2500 // a path can name 2,000
	trees := []struct {
		name   string
		make   func(t *testing.T, w *world, dir string)
		plain  bool // os.RemoveAll can remove it
		closed bool // it is no hurdle for root
	}{
		{name: "links", plain: true, make: func(t *testing.T, w *world, dir string) {
			for i, target := range []string{w.path("outside"), "../../../../outside", "/", ".", "loop", "/proc/self/root", "/proc/self/cwd"} {
				must.Do(t, os.Symlink(target, filepath.Join(dir, fmt.Sprint("link", i))))
			}
			must.Do(t, os.Symlink("loop", filepath.Join(dir, "loop")))
		}},
		{name: "closed directories", closed: true, make: func(t *testing.T, w *world, dir string) {
			w.write(t, filepath.Join(dir, "a/b/c/d"), "x")
			w.own(t)
			for _, path := range []string{"a/b/c", "a/b", "a"} {
				must.Do(t, os.Chmod(filepath.Join(dir, path), 0))
			}
		}},
		{name: "closed directories, nested", closed: true, make: func(t *testing.T, w *world, dir string) {
			w.nest(t, dir, 100)
			w.own(t)
			for at := dir + strings.Repeat("/d", 100); at != dir; at = filepath.Dir(at) {
				must.Do(t, os.Chmod(at, 0))
			}
		}},
		{name: "more directories in one another than descriptors", make: func(t *testing.T, w *world, dir string) {
			w.own(t)
			w.nest(t, dir, deep)
		}},
		{name: "several of them", make: func(t *testing.T, w *world, dir string) {
			for i := range 5 {
				must.Do(t, os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o700))
			}
			w.own(t)
			for i := range 5 {
				w.nest(t, filepath.Join(dir, strconv.Itoa(i)), 300)
			}
		}},
		{name: "many files", plain: true, make: func(t *testing.T, w *world, dir string) {
			for i := range 5000 {
				must.Do(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600))
			}
			w.own(t)
		}},
		{name: "pipes, sockets, odd names and a sparse file", plain: true, make: func(t *testing.T, w *world, dir string) {
			must.Do(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
			l := must.Get(net.Listen("unix", filepath.Join(dir, "s")))(t)
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			l.Close()
			for _, name := range []string{"\n", "\x1b[2J", "\xff\xfe", "-rf", "...", strings.Repeat("x", 255), "a\\b", "*"} {
				must.Do(t, os.MkdirAll(filepath.Join(dir, name, name), 0o700))
			}
			must.Do(t, os.WriteFile(filepath.Join(dir, "big"), nil, 0o600))
			must.Do(t, os.Truncate(filepath.Join(dir, "big"), 1<<40))
			w.own(t)
		}},
	}
	for i, tree := range trees {
		t.Run(tree.name, func(t *testing.T) {
			users(t, func(t *testing.T, uid int) {
				w := newWorld(t, uid)
				w.write(t, w.path("outside/kept"), "kept")
				t.Cleanup(func() { exec.Command("rm", "-rf", w.path("state")).Run() }) // os.RemoveAll can't
				dir := w.path("state/sandbox/x", []string{"state", "cache", "tmp/0123/files"}[i%3])
				for _, args := range [][]string{{"plain"}, nil} {
					must.Do(t, os.MkdirAll(dir, 0o700))
					w.own(t)
					tree.make(t, w, dir)
					removed := tree.plain || tree.closed && uid == 0 || args == nil
					if err := w.evict(t, args...); (err == nil) != removed {
						t.Errorf("%q: %v", args, err)
					}
					if !removed {
						must.Do(t, exec.Command("rm", "-rf", w.path("state/sandbox")).Run())
					}
				}
				if left := must.Get(os.ReadDir(w.path("state/sandbox")))(t); len(left) > 0 {
					t.Errorf("left are %v", left)
				}
				if !exists(w.path("outside/kept")) {
					t.Error("what a link leads to is removed")
				}
			})
		})
	}
}

// What a job swaps while its directory is removed leads nowhere else: neither a file nor a mode is changed there.
func TestRemovalDuringSwaps(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		w.write(t, w.path("outside/a/kept"), "kept")
		must.Do(t, os.Chmod(w.path("outside/a"), 0o711))
		w.own(t)
		for range 20 {
			dir := w.path("state/sandbox/x/state")
			must.Do(t, os.MkdirAll(dir, 0o700))
			w.own(t)
			script := fmt.Sprintf(`cd %s; echo; while :; do mkdir -p a/b/c && touch a/b/c/f && chmod 0 a/b; mv a was; ln -s %s a; rm a; mkfifo a; rm a; chmod 700 was/b; rm -r was; done 2>/dev/null`, dir, w.path("outside/a"))
			cmd := exec.Command("sh", "-c", script)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}, Setpgid: true}
			out := must.Get(cmd.StdoutPipe())(t)
			must.Do(t, cmd.Start())
			must.Get(out.Read(make([]byte, 1)))(t)
			w.evict(t) // an error: a directory got another file
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			cmd.Wait()
			st, err := os.Stat(w.path("outside/a"))
			if must.Do(t, err); st.Mode().Perm() != 0o711 || !exists(w.path("outside/a/kept")) {
				t.Fatalf("what a link led to has changed: %v", st.Mode())
			}
			if err := w.evict(t); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
	})
}
