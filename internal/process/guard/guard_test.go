//go:build linux

package guard

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/must"

	"github.com/google/go-cmp/cmp"
)

// partGuard is the argument that makes the test binary play the guard.
const partGuard = "part-guard"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == partGuard {
		os.Exit(Run(os.Stdin))
	}
	os.Exit(m.Run())
}

// start starts a command in a session of its own. It is killed and reaped at the end of the test.
func start(t *testing.T, env string, argv ...string) (p procfs.Process, ended <-chan error) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must.Do(t, cmd.Start())
	s := must.Get(procfs.Inspect(cmd.Process.Pid))(t)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })
	return s.Process, done
}

// At the end of its input the guard kills the processes that were added and those that carry the
// mark. It spares all others, including forgotten ones, and ends last.
func TestKillsAtTheEndOfInput(t *testing.T) {
	const patience = time.Minute
	added, addedEnd := start(t, "", "sh", "-c", "trap '' TERM HUP INT; sleep 1000 & wait; sleep 1000")
	_, markedEnd := start(t, "GUARD_TEST=mine", "sleep", "1000")
	forgotten, forgottenEnd := start(t, "GUARD_TEST=another", "sleep", "1000")

	self := must.Get(os.Executable())(t)
	cmd := exec.Command(self, partGuard)
	in := must.Get(cmd.StdinPipe())(t)
	must.Do(t, cmd.Start())
	io.WriteString(in, Mark("GUARD_TEST", "mine")+Add(added)+Add(forgotten)+Forget(forgotten.PID))
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the guard: %v", err)
	}
	for _, end := range []<-chan error{addedEnd, markedEnd} {
		select {
		case err := <-end:
			if err == nil || err.Error() != "signal: killed" {
				t.Errorf("ended with %v, want signal: killed", err)
			}
		case <-time.After(patience):
			t.Fatal("not killed")
		}
	}
	select {
	case err := <-forgottenEnd:
		t.Errorf("a process that the guard was to forget has ended: %v", err)
	default:
	}
}

// If the server has proven that nothing is left, the guard kills nothing, and does not scan.
func TestKillsNothingIfTheServerHas(t *testing.T) {
	t.Parallel()
	added, ended := start(t, "GUARD_TEST=ended", "sleep", "1000")
	r, w := must.Get2(os.Pipe())(t)
	defer r.Close()
	io.WriteString(w, Mark("GUARD_TEST", "ended")+Add(added)+Ended())
	w.Close()
	self := must.Get(os.Executable())(t)
	cmd := exec.Command(self, partGuard)
	cmd.Stdin = r
	if err := cmd.Run(); err != nil {
		t.Errorf("the guard: %v", err)
	}
	select {
	case err := <-ended:
		t.Errorf("the process has ended: %v", err)
	default:
	}
}

// The directories of a server go with it, whether or not it has ended its processes.
func TestRemovesDirectories(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"killed": "", "ended": Ended()} {
		dir := filepath.Join(t.TempDir(), "a \"quoted\"\nname")
		must.Do(t, os.MkdirAll(filepath.Join(dir, "below"), 0o700))
		r, w := must.Get2(os.Pipe())(t)
		io.WriteString(w, Mark("GUARD_TEST", "directories")+Remove(dir)+"remove relative\n"+last)
		w.Close()
		cmd := exec.Command(must.Get(os.Executable())(t), partGuard)
		cmd.Stdin = r
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: the guard: %v", name, err)
		}
		r.Close()
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the directory is left", name)
		}
	}
}

func TestFindsAddedProcessesWithSessionsAndDescendants(t *testing.T) {
	w := newWatched()
	for _, line := range []string{
		"mark X=1", "add 100 50", "add 200 60", "add 300 70", "forget 300", "add 400 80",
		"", "add", "add x y", "add 1 5", "add -7 5", "forget x", "nonsense 5", "add 500 99999999999999999999999",
	} {
		w.handleLine(line)
	}
	if diff := cmp.Diff(map[int]uint64{100: 50, 200: 60, 400: 80}, w.added); diff != "" || w.name != "X" || w.value != "1" {
		t.Fatalf("added %v, mark %s=%s", w.added, w.name, w.value)
	}
	w.value = "" // no mark: the pids below are made up
	stat := func(pid int, start uint64, parent, session int, state byte) procfs.Stat {
		return procfs.Stat{
			Process: procfs.Process{PID: pid, Start: start, Parent: parent, Group: session},
			Session: session, State: state, Threads: 1,
		}
	}
	w.signalled[700], w.signalled[800] = 75, 76
	withGroup, alone, err := w.find([]procfs.Stat{
		stat(1, 0, 0, 1, 'S'),
		stat(104, 53, 103, 104, 'S'), // grandchild of 101, in a session of its own
		stat(103, 52, 101, 103, 'S'), // its parent
		stat(100, 50, 1, 100, 'S'),   // added
		stat(101, 51, 1, 100, 'S'),   // in its session
		stat(102, 51, 1, 100, 'Z'),   // has ended
		stat(200, 90, 1, 200, 'S'),   // has the pid of one that was added, but is another process
		stat(201, 91, 200, 200, 'S'), // in its session
		stat(300, 70, 1, 300, 'S'),   // forgotten
		stat(401, 81, 1, 400, 'S'),   // in a session whose leader has ended
		stat(402, 79, 1, 400, 'S'),   // older than that: an earlier session with the same id
		stat(600, 10, 1, 600, 'S'),   // another's
		stat(700, 75, 1, 600, 'D'),   // signalled, and not ended yet
		stat(800, 95, 1, 600, 'S'),   // has the pid of one that was signalled, but is another process
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, s := range append(withGroup, alone...) {
		got = append(got, s.PID)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]int{100, 101, 103, 104, 401, 700}, got); diff != "" {
		t.Error(diff)
	}
}
