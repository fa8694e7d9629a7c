//go:build linux

package sandbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// parts are the programs that the test binary plays if its first argument names one.
var parts = map[string]func(args []string) int{
	"part-outer":  partOuter,
	"part-escape": partEscape,
	"part-seals":  partSeals,
	"part-lines":  partLines,
	"part-evict":  partEvict,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if part := parts[os.Args[1]]; part != nil {
			os.Exit(part(os.Args[2:]))
		}
	}
	os.Exit(runTests(m))
}

// runTests runs the tests with the test binary where every user can read it.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("/tmp", "sandbox-self-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return fail(err)
	}
	self = filepath.Join(dir, "sandbox.test")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(self, program, 0o755)); err != nil {
		return fail(err)
	}
	return m.Run()
}

// A launch is what the part outer starts.
type launch struct {
	Config  sandbox.Config
	Plain   bool   // the program starts without a sandbox
	Etc     string // a directory whose secrets are hidden as if it were /etc, and root the user
	Dir     string
	Program []string
}

// partOuter starts a program in a sandbox, or without one, and waits for it.
func partOuter([]string) int {
	var l launch
	err := json.NewDecoder(os.NewFile(3, "launch")).Decode(&l)
	if err != nil {
		return fail(err)
	}
	cmd := exec.Command(l.Program[0], l.Program[1:]...)
	if !l.Plain {
		box, err := sandbox.New(l.Config)
		if err != nil {
			return fail(err)
		}
		defer box.Close()
		if l.Etc != "" {
			if err := box.HideSecrets(l.Etc); err != nil {
				return fail(err)
			}
		}
		filter, err := sandbox.Filter()
		if err != nil {
			return fail(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		if _, err = w.Write(filter); err != nil {
			return fail(err)
		}
		w.Close()
		seals, err := json.Marshal(box.Seals)
		if err != nil {
			return fail(err)
		}
		self, err := os.Executable()
		if err != nil {
			return fail(err)
		}
		program := append([]string{self, "part-seals", string(seals)}, l.Program...)
		cmd = exec.Command("bwrap", box.Args(l.Dir, 3, program...)...)
		cmd.ExtraFiles = []*os.File{r}
	}
	cmd.Dir = l.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	runtime.LockOSThread() // the sandbox ends with the thread that started it
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode()
	}
	return fail(err)
}

// partSeals checks the seals of a sandbox, inside, and becomes the program that follows.
func partSeals(args []string) int {
	var seals []sandbox.Seal
	if err := json.Unmarshal([]byte(args[0]), &seals); err != nil {
		return fail(err)
	}
	if broken := sandbox.Broken(seals); broken != nil {
		return fail(fmt.Errorf("broken: %q", broken))
	}
	return fail(syscall.Exec(args[1], args[1:], append(os.Environ(), "SEALS="+args[0])))
}

// partLines prints what the sandbox protects no more.
func partLines(args []string) int {
	var seals []sandbox.Seal
	if err := json.Unmarshal([]byte(args[0]), &seals); err != nil {
		return fail(err)
	}
	fmt.Print(strings.Join(sandbox.Unprotected(seals), "\n"))
	return 0
}

// fail prints an error, if there is one, and returns the exit status.
func fail(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// A world is a machine in small: a home, a workspace and other directories of one user.
type world struct {
	Dir   string // the directory above all others
	Token string // the text that an escape writes
	UID   int
	Facts map[string]string // what an escape knows of the world outside
}

func (w *world) path(elements ...string) string {
	return filepath.Join(append([]string{w.Dir}, elements...)...)
}
func (w *world) home(name string) string      { return w.path("home", name) }
func (w *world) workspace(name string) string { return w.path("home", "work", name) }

// An ordinary user has this id, if the tests run as root.
const ordinary = 54321

// newWorld makes a world for a user. It is below /tmp, so paths of a sandbox's own /tmp meet those of the
// world.
func newWorld(t testing.TB, uid int) *world {
	t.Helper()
	needtest.Program(t, "bwrap")
	dir := must.Get(os.MkdirTemp("/tmp", "sandbox-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{Dir: dir, UID: uid, Facts: make(map[string]string)}
	must.Do(t, os.Chmod(dir, 0o755))
	for _, d := range []string{"home/work", "home/.local", "state", "other", "outside"} {
		must.Do(t, os.MkdirAll(w.path(d), 0o755))
	}
	w.own(t)
	return w
}

// write writes a file of the world. Directories above it are made.
func (w *world) write(t testing.TB, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
}

// own gives all files of the world to its user.
func (w *world) own(t testing.TB) {
	t.Helper()
	if os.Getuid() != w.UID {
		must.Do(t, filepath.WalkDir(w.Dir, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, w.UID, w.UID))
		}))
	}
}

// config returns the usual configuration of a sandbox in the world.
func (w *world) config() sandbox.Config {
	return sandbox.Config{Workspace: w.workspace(""), Home: w.home(""), State: w.path("state"), Identity: "0123456789abcdef", Programs: []string{self}}
}

// self is the test binary where every user can read it.
var self string

// command returns a command that runs a program of the world as its user, in a sandbox or without one.
func (w *world) command(t testing.TB, l launch) *exec.Cmd {
	t.Helper()
	if l.Dir == "" {
		l.Dir = w.workspace("")
	}
	text := must.Get(json.Marshal(l))(t)
	r, wr, err := os.Pipe()
	must.Do(t, err)
	must.Get(wr.Write(text))(t)
	wr.Close()
	t.Cleanup(func() { r.Close() })
	cmd := exec.Command(self, "part-outer")
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{r}
	// A program with the race detector waits for a second at its end otherwise.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home(""), "GORACE=atexit_sleep_ms=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if w.UID != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.UID), Gid: uint32(w.UID)}
	}
	return cmd
}

// shell runs a shell script in a sandbox of the world and returns what it printed.
func (w *world) shell(t testing.TB, c sandbox.Config, script string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := w.command(t, launch{Config: c, Dir: c.Workspace, Program: []string{"/bin/sh", "-c", script}})
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return strings.TrimSpace(out.String()), err
}

// users calls f as root and as an ordinary user if the tests run as root, and otherwise as their user. Short
// tests leave root out.
func users(t *testing.T, f func(t *testing.T, uid int)) {
	t.Helper()
	if os.Getuid() != 0 {
		f(t, os.Getuid())
		return
	}
	if !testing.Short() {
		t.Run("root", func(t *testing.T) { f(t, 0) })
	}
	t.Run("ordinary", func(t *testing.T) { f(t, ordinary) })
}
