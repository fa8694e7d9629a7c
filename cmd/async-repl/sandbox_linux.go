package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/text/view"
	"asyncrepl/pkgmgr"
)

// probeCommand is the subcommand that tries a sandbox from inside. Only the command sandbox uses it, so help
// does not name it.
const probeCommand = "sandbox-probe"

// outside is what a probe compares the inside with.
type outside struct {
	Config     sandbox.Config
	Write      []string
	Seals      []sandbox.Seal
	Namespaces map[string]string // the targets of the links in /proc/self/ns, by the name of the link
	Temporary  string            // the path of a file in /tmp
	Address    string            // the address of a server on the loopback
	Path       []string          // the directories of the PATH that exist
	Links      map[string]string // the targets of the links in the workspace, by the path of the link
	Commands   [][]string        // commands of the shell and of Python that must succeed
}

// namespaces are those that a sandbox has of its own.
var namespaces = []string{"user", "pid", "ipc", "net", "mnt"}

// testSecret is a variable that a sandbox must not get.
const testSecret = "ASYNC_REPL_TEST_SECRET"

// probe tries each promise of the sandbox, and prints what holds.
func (s *settings) probe(ctx context.Context, out io.Writer) error {
	c, bwrap, err := s.sandboxConfig()
	if err != nil {
		return err
	}
	box, err := sandbox.New(c)
	if err != nil {
		return sandboxError(err)
	}
	defer box.Close()
	if bwrap == "" {
		return errors.New(sandbox.Missing)
	}

	o := outside{Config: c, Write: box.Write, Seals: box.Seals, Namespaces: make(map[string]string)}
	for _, name := range namespaces {
		if o.Namespaces[name], err = os.Readlink("/proc/self/ns/" + name); err != nil {
			return err
		}
	}
	f, err := os.CreateTemp("/tmp", "async-repl-")
	if err != nil {
		return err
	}
	f.Close()
	defer os.Remove(f.Name())
	o.Temporary = f.Name()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	o.Address = l.Addr().String()

	o.Links = linksIn(box.Write[0])
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(dir); err == nil && !slices.Contains(o.Path, dir) {
			o.Path = append(o.Path, dir)
		}
	}
	for _, command := range [][]string{{c.Shell, "-c", ":"}, {c.Python, "-c", ""}} {
		if _, err := os.Stat(command[0]); err == nil { // a Python can be one that is yet to be made
			o.Commands = append(o.Commands, command)
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	kept, removed := sandbox.Environment(append(os.Environ(), testSecret+"=x"), s.sandbox.Pass)
	filter, err := filterFile()
	if err != nil {
		return err
	}
	defer filter.Close()
	limited, cancel := context.WithTimeout(ctx, sandboxTime)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(limited, bwrap, box.Args(box.Write[0], 3, c.Programs[0], probeCommand)...)
	cmd.Env, cmd.ExtraFiles = kept, []*os.File{filter}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), out, &stderr
	cmd.WaitDelay = time.Second
	runtime.LockOSThread() // the sandbox ends with the thread that has started it
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	switch exit := (*exec.ExitError)(nil); {
	case limited.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("the sandbox did not start and end within %v: %s", sandboxTime, strings.TrimSpace(stderr.String()))
	case errors.As(err, &exit) && stderr.Len() > 0:
		return startError(strings.TrimSpace(stderr.String()), err)
	case errors.As(err, &exit):
		return errProbe
	case err != nil:
		return err
	}
	for _, path := range box.Open {
		fmt.Fprintf(out, "%-5s  %s: %s\n", "note", "obeyed later", path+" is a link or a special file, which can't be protected")
	}
	if top := repositoryAbove(box.Write[0]); top != "" {
		fmt.Fprintf(out, "%-5s  git: the repository %s is above the workspace and not there, so git does not work: set REPL_WORKDIR=%s if jobs need it\n", "note", top, top)
	}
	removed = slices.DeleteFunc(removed, func(name string) bool { return name == testSecret })
	if s.sandbox.Hosts != nil {
		fmt.Fprintf(out, "%-5s  %s: %s\n", "note", "network", "programs that use a proxy reach the listed hosts, which is not tried here")
	}
	if len(removed) > 0 {
		fmt.Fprintf(out, "%-5s  %s: %s\n", "ok", "environment", "without "+strings.Join(removed, ", "))
	}
	return nil
}

// linksIn returns the links in a directory that lead to something, and to what. Of a thousand names and more
// it leaves some out.
func linksIn(dir string) map[string]string {
	links := make(map[string]string)
	f, err := os.Open(dir)
	if err != nil {
		return links
	}
	defer f.Close()
	entries, _ := f.ReadDir(1000)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Type() == os.ModeSymlink {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				links[path] = real
			}
		}
	}
	return links
}

// repositoryAbove returns the directory above a workspace that has the repository of it, or "".
func repositoryAbove(workspace string) string {
	for dir := workspace; ; dir = filepath.Dir(dir) {
		switch _, err := os.Lstat(filepath.Join(dir, ".git")); {
		case err == nil && dir != workspace:
			return dir
		case err == nil, dir == "/":
			return ""
		}
	}
}

// checkSandbox checks what can be checked of the sandbox before it starts.
func (s *settings) checkSandbox() error {
	if !s.sandbox.On || s.access.tokens != "" { // each tenant has a workspace
		return nil
	}
	return s.checkWorkspace()
}

// checkWorkspace checks whether the workspace can be that of a sandbox. A front answers nothing before, so
// what its settings do not name is left to the start of the sandbox.
func (s *settings) checkWorkspace() error {
	c, bwrap, err := s.sandboxPaths()
	if err == nil {
		err = sandboxError(sandbox.Check(c))
	}
	if err == nil && bwrap == "" {
		err = errors.New(sandbox.Missing)
	}
	return err
}

// sandboxPaths returns the paths of the sandbox that the settings describe, and that of bubblewrap, or "".
func (s *settings) sandboxPaths() (c sandbox.Config, bwrap string, err error) {
	if s.StateDir == "" {
		return c, "", errors.New("a sandbox needs a state directory: set REPL_STATE_DIR")
	}
	c = sandbox.Config{Workspace: s.Workspace, Read: s.sandbox.Read, Write: s.sandbox.Write, Home: os.Getenv("HOME"), State: s.StateDir, Network: s.sandbox.Network}
	return c, c.Find(filepath.SplitList(os.Getenv("PATH"))), nil
}

// sandboxConfig returns what sandboxPaths does, with all else that a sandbox holds.
func (s *settings) sandboxConfig() (c sandbox.Config, bwrap string, err error) {
	if c, bwrap, err = s.sandboxPaths(); err != nil {
		return c, "", err
	}
	self, err := os.Executable()
	if err != nil {
		return c, "", err
	}
	if c.Shell, err = findShell(s.Shell); err != nil {
		return c, "", err
	}
	path := filepath.SplitList(os.Getenv("PATH"))
	virtual, conda := os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")
	if s.access.tokens != "" { // a tenant has an environment of its own
		virtual, conda = "", ""
	}
	python, _ := pkgmgr.New(pkgmgr.Config{
		Workspace: s.Workspace, Path: path, Env: os.Environ(),
		Python: pkgmgr.Setting{Name: "REPL_PYTHON", Value: s.Python}, VenvDir: pkgmgr.Setting{Name: "REPL_VENV_DIR", Value: s.VenvDir},
		VirtualEnv: pkgmgr.Setting{Value: virtual}, CondaPrefix: pkgmgr.Setting{Value: conda},
	}).Describe() // an error is that of the first use of Python, too
	c.Programs, c.Python = []string{self}, python.Python
	// Servers of one workspace share caches and records, whatever else their settings allow: what a job can
	// leave there for the jobs of another, it can also leave in the workspace. The identity of an engine would
	// lose them with each boot.
	c.Identity = fmt.Sprintf("%.8x", sha256.Sum256([]byte(sockets.Resolve(s.Workspace))))
	for _, dir := range path { // a new environment is made by them
		for _, name := range []string{"python3", "uv"} {
			program := filepath.Join(dir, name)
			if _, err := os.Stat(program); err == nil && filepath.IsAbs(dir) {
				c.Found = append(c.Found, program)
			}
		}
	}
	for _, secret := range []string{s.access.tokens, s.access.key} {
		if secret != "" {
			c.Hidden = append(c.Hidden, secret)
		}
	}
	return c, bwrap, nil
}

// sandboxError names the setting of a path that a sandbox can't have.
func sandboxError(err error) error {
	var bad *sandbox.PathError
	if !errors.As(err, &bad) {
		return err
	}
	setting := map[sandbox.Role]string{
		sandbox.Workspace: "REPL_WORKDIR", sandbox.Read: "REPL_SANDBOX_READ", sandbox.Write: "REPL_SANDBOX_WRITE",
		sandbox.Shell: "REPL_SHELL", sandbox.Python: "REPL_PYTHON or REPL_VENV_DIR", sandbox.State: "REPL_STATE_DIR",
	}[bad.Role]
	switch {
	case bad.Needs != "":
		return fmt.Errorf("%w: set REPL_SANDBOX_READ=%s if that Python is yours, or remove the environment", err, bad.Needs)
	case setting == "": // this program was started through a link that a job can have made
		return err
	}
	return fmt.Errorf("%w: set %s to another", err, setting)
}

// probeSandbox tries a sandbox from inside.
func probeSandbox(_ context.Context, _ []string, std standardStreams) int {
	var o outside
	if err := json.NewDecoder(std.in).Decode(&o); err != nil {
		fmt.Fprintln(std.err, "async-repl:", err)
		return 1
	}
	status := 0
	say := func(what, text string, holds bool) {
		state := "ok"
		if !holds {
			state, status = "fails", 1
		}
		fmt.Fprintf(std.out, "%-5s  %s: %s\n", state, what, text)
	}
	writable := func(path string) bool { return unix.Access(path, unix.W_OK) == nil }
	readable := func(path string) bool { // access(2) does not know what can't be opened
		f, err := os.Open(path)
		f.Close()
		return err == nil
	}

	broken := sandbox.Broken(o.Seals)
	text := "what was checked is mounted"
	if broken != nil {
		text = fmt.Sprintf("another file is at %q", broken)
	}
	say("files", text, broken == nil)
	for _, path := range o.Write {
		say("files", "writes "+path, writable(path))
	}
	readOnly := true
	for _, path := range []string{"/", "/usr", "/etc", "/sys"} {
		readOnly = readOnly && !writable(path)
	}
	say("files", "the system can't be written", readOnly)
	say("files", "has a /tmp of its own", !readable(o.Temporary) && writable("/tmp"))
	say("files", "secrets of the system can't be read", !readable("/etc/shadow"))
	var fs unix.Statfs_t
	say("files", "the home directory is empty and forgotten", o.Config.Home == "" || unix.Statfs(o.Config.Home, &fs) != nil || fs.Type == unix.TMPFS_MAGIC)
	entries, _ := os.ReadDir(o.Config.State)
	say("files", "of the state directory only sandbox is there", len(entries) == 1 && entries[0].Name() == "sandbox")

	shared := []string{}
	for name, link := range o.Namespaces {
		if own, err := os.Readlink("/proc/self/ns/" + name); (err != nil || own == link) && (name != "net" || !o.Config.Network) {
			shared = append(shared, name)
		}
	}
	text = "has namespaces of its own"
	if len(shared) > 0 {
		text = "shares namespaces: " + strings.Join(shared, ", ")
	}
	say("processes", text, len(shared) == 0)
	_, err := net.DialTimeout("tcp", o.Address, time.Second)
	if o.Config.Network {
		say("network", "reaches that of the machine", err == nil)
	} else {
		say("network", "reaches nothing outside", err != nil)
	}

	kernel, _ := os.ReadFile("/proc/self/status")
	line := func(text string) bool { return bytes.Contains(kernel, []byte("\n"+text+"\n")) }
	say("system calls", "no privileges", line("CapEff:\t0000000000000000") && line("CapPrm:\t0000000000000000") && line("NoNewPrivs:\t1"))
	refused := func(want unix.Errno, nr, a, b uintptr) bool {
		_, _, e := unix.Syscall(nr, a, b, 0)
		return e == want
	}
	say("system calls", "no new namespaces", refused(unix.EPERM, unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0) && refused(unix.ENOSYS, unix.SYS_CLONE3, 0, 0))
	say("system calls", "no io_uring", refused(unix.ENOSYS, unix.SYS_IO_URING_SETUP, 1, 0))
	say("system calls", "no input into terminals", refused(unix.EPERM, unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI))
	say("system calls", "no sockets of rare kinds", refused(unix.EAFNOSUPPORT, unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM))
	say("system calls", "settings of the kernel can't be written", !writable("/proc/sys/vm/swappiness"))
	say("environment", "no secrets", os.Getenv(testSecret) == "")
	for _, command := range o.Commands {
		text := command[0] + " runs"
		output, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err != nil {
			text = fmt.Sprintf("%s does not run (%v); add what it needs to REPL_SANDBOX_READ%s", command[0], err, after(": ", view.Line(string(output), 200)))
		}
		say("programs", text, err == nil)
	}
	for _, path := range slices.Sorted(maps.Keys(o.Links)) {
		if _, err := os.Stat(path); err != nil {
			fmt.Fprintf(std.out, "%-5s  files: %q leads to %q, which is not there: add that to REPL_SANDBOX_READ or REPL_SANDBOX_WRITE if jobs need it\n", "note", path, o.Links[path])
		}
	}
	for _, dir := range o.Path {
		if _, err := os.Stat(dir); err != nil {
			fmt.Fprintf(std.out, "%-5s  programs: %s is on the PATH and not there: add it to REPL_SANDBOX_READ if jobs need it\n", "note", dir)
		}
	}
	return status
}
