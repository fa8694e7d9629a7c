//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// parts are the programs that the test binary plays if its first argument names one.
var parts = map[string]func(args []string){
	"part-server": func(args []string) {
		for _, pid := range args[1:] {
			Include(need(procfs.Inspect(need(strconv.Atoi(pid)))).Process)
		}
		partServer(args[0])
	},
	"part-member": func(args []string) { partMember(args[0], args[1]) },
	"part-guard":  func([]string) { partGuard() },
	"part-eater":  func([]string) { partEater() },
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if part := parts[os.Args[1]]; part != nil {
			part(os.Args[2:])
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// part returns the test binary as one of its programs.
func part(args ...string) *exec.Cmd {
	return exec.Command(need(os.Executable()), args...)
}

// exitOn ends a part after an error.
func exitOn(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// need returns v, or ends a part after an error.
func need[T any](v T, err error) T {
	exitOn(err)
	return v
}

// partServer joins the group base, makes a Group of 64 MiB in it, has a child reach the limit, and
// leaves its groups to its guard.
func partServer(base string) {
	exitOn(put(base, os.Getpid()))
	guard := part("part-guard")
	in := need(guard.StdinPipe())
	exitOn(guard.Start())
	defer in.Close()
	fmt.Println("available:", Available())
	g := need(New(64 << 20))
	if g == nil {
		fmt.Println("no group:", Available())
		return
	}
	here := need(current())
	fmt.Println("moved:", here == leafOf(base, os.Getpid()))
	limit := need(os.ReadFile(filepath.Join(g.dir, "memory.max")))
	fmt.Println("limit:", strings.TrimSpace(string(limit)))
	before := need(Kills())

	eater := part("part-eater")
	start := need(eater.StdinPipe())
	exitOn(eater.Start())
	exitOn(g.Add(eater.Process.Pid))
	fmt.Println("full:", g.Full())
	start.Close()
	fmt.Println("eater:", eater.Wait())
	kills := need(g.Counter()())
	fmt.Println("kills:", kills, "full:", g.Full())
	after := need(Kills())
	fmt.Println("of others:", after-before)

	other := need(g.Another())
	fmt.Println("another:", other.dir != g.dir, "full:", other.Full())
	g.Remove() // the other one is left to the guard
	fmt.Println("removed:", missing(g.dir, ""))
}

// partGuard waits for the end of its parent and cleans up.
func partGuard() {
	server := os.Getppid()
	io.Copy(io.Discard, os.Stdin)
	Clean(server)
}

// partEater fills memory without end once its input ends.
func partEater() {
	io.Copy(io.Discard, os.Stdin)
	for all := [][]byte{}; ; {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = 1
		}
		all = append(all, b)
	}
}

// ours returns the directory of the test's own group. It skips the test if the system has none of version 2, or mounts
// none that this program is in.
func ours(t *testing.T) string {
	t.Helper()
	mounts := string(must.Get(os.ReadFile("/proc/self/mountinfo"))(t))
	group := string(must.Get(os.ReadFile("/proc/self/cgroup"))(t))
	if !strings.Contains(mounts, " - cgroup2 ") || !strings.Contains("\n"+group, "\n0::/") || strings.Contains("\n"+group, "\n0::/..") || strings.Contains(mounts, " /.. /sys/fs/cgroup") {
		t.Skip("no control groups of version 2")
	}
	return must.Get(current())(t)
}

// base makes an empty group with the memory controller, below ours. It skips the test if that can't
// be done.
func base(t *testing.T) string {
	t.Helper()
	here := ours(t)
	write(here, "cgroup.subtree_control", "+memory") // an error: the group below has no controller
	dir, err := os.MkdirTemp(here, "async-repl-test-")
	needtest.Unless(t, "our control group can't be written", err, fs.ErrPermission, syscall.EROFS, fs.ErrNotExist)
	t.Cleanup(func() { // the guard ends last
		polltest.Check(t, func() error { return os.Remove(dir) })
	})
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil || !slices.Contains(strings.Fields(string(b)), "memory") {
		t.Skipf("no memory controller in the groups below %s (%v)", here, err)
	}
	return dir
}

// A server has its groups below its own, moves there by itself, and leaves nothing.
func TestGroup(t *testing.T) {
	dir := base(t)
	out, err := part("part-server", dir).CombinedOutput()
	want := "available: <nil>\nmoved: true\nlimit: 67108864\nfull: false\neater: signal: killed\n" +
		"kills: 1 full: true\nof others: 0\nanother: true full: false\nremoved: true\n"
	if string(out) != want || err != nil {
		t.Errorf("got %q (%v), want %q", out, err, want)
	}
	polltest.Check(t, func() error {
		left, err := os.ReadDir(dir)
		for _, e := range left {
			if e.IsDir() {
				return fmt.Errorf("%s is left", e.Name())
			}
		}
		return err
	})
	polltest.Check(t, func() error { // the guard is the last process in it
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if len(strings.TrimSpace(string(b))) > 0 {
			return fmt.Errorf("%s is enabled in it", b)
		}
		return err
	})
}

// The process that has started a server can be in its group.
func TestIncludedProcess(t *testing.T) {
	dir := base(t)
	front := exec.Command("/bin/sh", "-c", `echo $$ > "$1/cgroup.procs" && "$2" part-server "$1" $$; :`, "sh", dir, need(os.Executable()))
	out, err := front.CombinedOutput()
	if want := "available: <nil>\nmoved: true\n"; !strings.HasPrefix(string(out), want) || err != nil {
		t.Errorf("got %q (%v), want %q", out, err, want)
	}
}

// Only the process itself is included, and not its other children or another process with its pid.
func TestIncludedMember(t *testing.T) {
	here := ours(t)
	dir, err := os.MkdirTemp(here, "async-repl-test-")
	needtest.Unless(t, "our control group can't be written", err, fs.ErrPermission, syscall.EROFS, fs.ErrNotExist)
	t.Cleanup(func() { polltest.Check(t, func() error { return os.Remove(dir) }) })
	front := exec.Command("/bin/sh", "-c", `echo $$ > "$1/cgroup.procs"; sleep 1000 & "$2" part-member "$1" $$; kill $!; wait`, "sh", dir, need(os.Executable()))
	out, err := front.CombinedOutput()
	const want = "not included: ours 1, others 2\nits pid before: ours 1, others 2\nincluded: ours 2, others 1\n"
	if string(out) != want || err != nil {
		t.Errorf("got %q (%v), want %q", out, err, want)
	}
}

// partMember counts the members of a group that it is in with its parent.
func partMember(dir, parent string) {
	p := need(procfs.Inspect(need(strconv.Atoi(parent)))).Process
	for _, c := range []struct {
		name  string
		start uint64
	}{{"not included", 0}, {"its pid before", p.Start - 1}, {"included", p.Start}} {
		if c.start > 0 {
			Include(procfs.Process{PID: p.PID, Start: c.start})
		}
		ours, others, err := members(dir)
		exitOn(err)
		fmt.Printf("%s: ours %d, others %d\n", c.name, len(ours), len(others))
	}
}

// A group in which there are other processes is left as it is.
func TestOtherProcesses(t *testing.T) {
	dir := base(t)
	other := exec.Command("sleep", "1000")
	must.Do(t, other.Start())
	defer other.Wait()
	defer other.Process.Kill()
	must.Do(t, put(dir, other.Process.Pid))
	out, err := part("part-server", dir).CombinedOutput()
	why := fmt.Sprintf("process %d (sleep), which this server has not started, is in %s, too\n", other.Process.Pid, dir)
	if want := "available: " + why + "no group: " + why; string(out) != want || err != nil {
		t.Errorf("got %q (%v), want %q", out, err, want)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")); err != nil || !slices.Contains(strings.Fields(string(b)), strconv.Itoa(other.Process.Pid)) {
		t.Errorf("the group has the processes %q (%v)", b, err)
	}
}

// A nil Group does nothing, and to ask whether there can be groups changes nothing.
func TestNoGroup(t *testing.T) {
	before, _ := os.ReadFile("/proc/self/cgroup") // an error: then later, too
	t.Log("groups here: ", Available())
	if after, _ := os.ReadFile("/proc/self/cgroup"); string(before) != string(after) {
		t.Errorf("we moved from %q to %q", before, after)
	}
	var g *Group
	another, err := g.Another()
	if another != nil || err != nil || g.Add(os.Getpid()) != nil || g.Full() || g.Counter() != nil {
		t.Error("a nil Group does something")
	}
	g.Remove()
}

// The directory of our group is found wherever the groups are mounted, and never outside of what we
// can see.
func TestLocate(t *testing.T) {
	const (
		unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid  = "30 23 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n" +
			"32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		host   = "30 23 0:26 /docker/a1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
		others = "30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
	)
	tests := map[string]struct{ groups, mounts, want string }{
		"scope":               {"0::/user.slice/run-1.scope\n", unified, "/sys/fs/cgroup/user.slice/run-1.scope"},
		"root":                {"0::/\n", unified, "/sys/fs/cgroup"},
		"both versions":       {"9:memory:/x\n1:name=systemd:/y\n0::/y\n", hybrid, "/sys/fs/cgroup/unified/y"},
		"part is mounted":     {"0::/docker/a1/b\n", host, "/sys/fs/cgroup/b"},
		"another is mounted":  {"0::/docker/a2\n", host, ""},
		"similar is mounted":  {"0::/docker/a11\n", host, ""},
		"outside":             {"0::/../b\n", unified, ""},
		"mounted from above":  {"0::/\n", others, ""},
		"not mounted":         {"0::/\n", "", ""},
		"version 1":           {"9:memory:/x\n", hybrid, ""},
		"name with two colon": {"0::/a::b\n", unified, "/sys/fs/cgroup/a::b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := locate(tt.groups, tt.mounts)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// The kernel's count of kills can be read wherever we are.
func TestKills(t *testing.T) {
	if _, err := Kills(); err != nil {
		t.Error(err)
	}
}

// A count does not fall when we leave a group that has one.
func TestKillsOfTheGroupBefore(t *testing.T) {
	dir := t.TempDir()
	leaf := leafOf(dir, 7)
	must.Do(t, os.Mkdir(leaf, 0o700))
	for group, n := range map[string]string{dir: "5", leaf: "2"} {
		must.Do(t, os.WriteFile(filepath.Join(group, "memory.events.local"), []byte("oom 1\noom_kill "+n+"\noom_group_kill 0\n"), 0o600))
	}
	for group, want := range map[string]uint64{dir: 5, leaf: 7} {
		if got, err := localKills(group); got != want || err != nil {
			t.Errorf("%s: got %d, %v, want %d", group, got, err, want)
		}
	}
	if _, err := localKills(leafOf(dir, 8)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a group that is not there: %v", err)
	}
}
