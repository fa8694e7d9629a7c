package waiting

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/threads"
	"asyncrepl/internal/terminal/tty/ttytest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// nobody is a user without rights.
const nobody = 65534

// A program that may not be inspected is reported to wait for a secret if the terminal is in that
// mode and quiet. Nothing is inferred of any other.
func TestProgramThatMayNotBeInspected(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 1 s: a terminal must be quiet for 0.3 s, again and again")
	}
	if os.Getuid() == 0 {
		asNobody(t) // root may inspect every program
		return
	}
	hides := hidingShell(t)
	for name, c := range map[string]struct {
		argv     []string
		first    string // what it does before it asks for secrets: it reads something else, or nothing
		inferred bool
	}{
		"secret":           {[]string{hides, "-c", `read -s -p "Password: " x; read -s y`}, "", true},
		"line":             {[]string{hides, "-c", `echo ready; read x; read -s x; read -s y`}, "line", true},
		"key":              {[]string{hides, "-c", `echo ready; read -s -n1 x; read -s x; read -s y`}, "key", true},
		"can be inspected": {[]string{"bash", "-c", `stty -echo; sleep 1; read x; read y`}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, c.argv)
			reported := p.watch(t)
			if c.first != "" {
				p.WaitPrinted(t, "ready")
				polltest.Until(t, "a read", func() bool {
					mode, err := p.PTY.Mode()
					return err == nil && kindOf(mode) == c.first && ttytest.State(p.PID) == "S"
				})
				for range 50 {
					if ev, v := newProbe(p.PTY, p.Tree()).scan(); v != busy {
						t.Fatalf("inferred: %+v, verdict %d", ev, v)
					}
				}
				p.Send(t, map[string]string{"line": "x\n", "key": "x"}[c.first])
			}
			for range 2 {
				if got := nextWaiting(t, reported); got.Kind != kindSecret || got.inferred != c.inferred || got.pid != p.PID {
					t.Fatalf("got %+v, want a secret; inferred: %t", got.Evidence, c.inferred)
				}
				p.Send(t, "x\n")
			}
		})
	}
}

// Nothing is inferred of a program that is not in the foreground of the terminal, is stopped, or
// has input to read.
func TestNothingElseIsInferred(t *testing.T) {
	if os.Getuid() == 0 {
		asNobody(t)
		return
	}
	hides := hidingShell(t)
	for name, c := range map[string]struct{ script, state, typed string }{
		"background":      {`set -m; $0 -c 'sleep 1000; :' & stty -echo; exec sleep 1000`, "S", ""},
		"stopped":         {`set -m; $0 -c 'kill -STOP $$; :' & stty -echo; sleep 1000; :`, "T", ""},
		"another session": {`setsid $0 -c 'sleep 1000; :' & stty -echo; exec sleep 1000`, "S", ""},
		"typed ahead":     {`stty -echo; exec $0 -c 'sleep 1000; :'`, "S", "x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, []string{"bash", "-c", c.script, hides})
			polltest.Until(t, "a program that hides, and the end of stty", func() bool {
				if mode, err := p.PTY.Mode(); err != nil || kindOf(mode) != kindSecret {
					return false
				}
				hidden := false
				for _, pid := range p.Tree() {
					if s, err := procfs.Inspect(pid); err != nil || s.Program == "stty" {
						return false
					}
					_, err := threads.Thread{PID: pid, TID: pid}.BlockedIn()
					hidden = hidden || errors.Is(err, fs.ErrPermission) && ttytest.State(pid) == c.state
				}
				return hidden
			})
			want := busy
			if c.typed != "" {
				p.Send(t, c.typed)
				want = uncertain
			}
			for range 50 {
				if ev, v := newProbe(p.PTY, p.Tree()).scan(); v != want {
					t.Fatalf("got %+v, verdict %d, want %d", ev, v, want)
				}
			}
		})
	}
}

// Programs that get the rights of root from their files ask an ordinary user for a password.
func TestProgramsOfRootMayNotBeInspected(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 1 s: three programs of the system start")
	}
	if os.Getuid() == 0 {
		asNobody(t)
		return
	}
	for _, name := range []string{"su", "sudo", "passwd"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			getsRoot(t, name)
			argv := []string{name}
			if name == "sudo" {
				argv = append(argv, "-k", "true")
			}
			p := start(t, argv)
			t.Cleanup(func() { p.PTY.Send(context.Background(), []byte("\x03")) }) // its user may not kill it
			got := nextWaiting(t, p.watch(t))
			if got.Kind != kindSecret || !got.inferred || !strings.Contains(strings.ToLower(got.printed), "password") {
				t.Errorf("got %+v after %q, want an inferred secret", got.Evidence, got.printed)
			}
		})
	}
}

// hidingShell returns the path of a bash of which the kernel shows nothing: its user may not read
// its file.
func hidingShell(t *testing.T) string {
	bash := needtest.Program(t, "bash")
	code := must.Get(os.ReadFile(bash))(t)
	hides := t.TempDir() + "/hides"
	must.Do(t, os.WriteFile(hides, code, 0o111))
	return hides
}

// getsRoot skips the test if the program does not get the rights of root here.
func getsRoot(t *testing.T, name string) {
	path := needtest.Program(t, name)
	info := must.Get(os.Stat(path))(t)
	var fs unix.Statfs_t
	must.Do(t, unix.Statfs(path, &fs))
	none := must.Get(unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0))(t)
	if info.Mode()&os.ModeSetuid == 0 || info.Sys().(*syscall.Stat_t).Uid != 0 || fs.Flags&unix.ST_NOSUID != 0 || none != 0 {
		t.Skip(name + " gets no rights of root here")
	}
}

// asNobody runs the test as a user without rights. That user may not enter the directory of the
// test's program.
func asNobody(t *testing.T) {
	self := must.Get(os.Open("/proc/self/exe"))(t)
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3", "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	t.Logf("as another user:\n%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatal(err)
	}
}
