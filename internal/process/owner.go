//go:build unix

package process

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"asyncrepl/internal/tty"

	"golang.org/x/sys/unix"
)

// ErrShutdown is the error of a start after Shutdown.
var ErrShutdown = errors.New("shutting down")

// Config is what an Owner is made of.
type Config struct {
	// Guard is the argument vector of the guard, a program that calls guard.Run; without one, nobody ends what is left
	// when this process is killed. GuardEnv is its whole environment.
	Guard    []string
	GuardEnv []string

	// Mark is the name of the environment variable by which a process is known to belong to a job, ASYNC_REPL_JOB if
	// empty. A second variable of that name with _OWNER behind it stands for this Owner.
	Mark string

	Log *slog.Logger // nil: silent
}

// Owner starts processes and answers for them: whatever grows from them is ended by Shutdown at the latest.
type Owner struct {
	config Config
	token  string // what marks the environments of all that we start
	null   *os.File
	guard  *guardLink
	kills  oomCounter
	closed atomic.Bool

	// The limits, but in tests, which make them longer than any machine needs.
	settle, grace, limit time.Duration
}

// NewOwner makes this process the one that orphans of its descendants come to, and an Owner that starts nothing yet.
// Shutdown must be called.
func NewOwner(c Config) (*Owner, error) {
	if c.Mark == "" {
		c.Mark = "ASYNC_REPL_JOB"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	kin.join()
	o := &Owner{config: c, token: rand.Text(), null: null, settle: settleLimit, grace: shutdownGrace, limit: shutdownLimit}
	o.guard = newGuard(o)
	return o, nil
}

// Spec is what to start and how.
type Spec struct {
	Argv []string // a name without a slash is looked for in the PATH of Env
	Env  []string // the whole environment; what marks the job is added
	Dir  string   // empty: our own
	Wrap []string // a program with its arguments that is put in front of Argv

	// TTY, if not nil, becomes the controlling terminal.
	TTY *tty.PTY

	// Files are the descriptors, from 0 on and at least three. In place of a nil stands the terminal, or /dev/null
	// where there is none.
	Files []*os.File

	Mark string // the job's or worker's id
}

// Start starts a program as the leader of its own session and group, with no signal ignored or blocked. What is passed
// to it stays the caller's, who closes his copies of the program's ends.
func (o *Owner) Start(s Spec) (*Handle, error) {
	if o.closed.Load() {
		return nil, ErrShutdown
	}
	argv := slices.Concat(s.Wrap, s.Argv)
	if len(argv) == 0 {
		return nil, errors.New("starting nothing: no program named")
	}
	env := o.environment(s)
	path, err := program(argv[0], env)
	if err != nil {
		return nil, err
	}
	files, terminal, err := o.descriptors(s)
	if err != nil {
		return nil, err
	}
	attr := &os.ProcAttr{Dir: s.Dir, Env: env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true}}
	h := &Handle{owner: o, tty: s.TTY, mark: s.Mark, done: make(chan struct{}), cleared: make(chan struct{})}
	if s.TTY != nil {
		attr.Sys.Setctty, attr.Sys.Ctty = true, terminal
		h.files = telling(files, s.TTY.Slave())
	} else {
		h.files = telling(files, nil)
	}

	o.guard.ensure()
	h.kills = o.kills.recent()
	if _, err := kin.launch(path, argv, attr, h.enter); err != nil {
		return nil, startError(argv[0], s.Dir, err)
	}
	if !o.guard.add(h.self) { // it has died since
		o.guard.ensure()
	}
	go h.follow()        // owned by the handle; ends when the process has been reaped
	if o.closed.Load() { // Shutdown may have looked before it was there
		h.kill()
		return nil, ErrShutdown
	}
	return h, nil
}

// environment is the spec's with our marks, which replace those of a server that we run under.
func (o *Owner) environment(s Spec) []string {
	job, owner := o.config.Mark+"=", o.config.Mark+"_OWNER="
	env := make([]string, 0, len(s.Env)+2)
	for _, kv := range s.Env {
		if !strings.HasPrefix(kv, job) && !strings.HasPrefix(kv, owner) {
			env = append(env, kv)
		}
	}
	if s.Mark != "" {
		env = append(env, job+s.Mark)
	}
	return append(env, owner+o.token)
}

// descriptors fills in what the spec leaves out, and finds the descriptor at which the terminal stands.
func (o *Owner) descriptors(s Spec) (files []*os.File, terminal int, err error) {
	terminal = -1
	for i := range max(3, len(s.Files)) {
		f := o.null
		if s.TTY != nil {
			f = s.TTY.Slave()
		}
		if i < len(s.Files) && s.Files[i] != nil {
			f = s.Files[i]
		}
		if s.TTY != nil && f == s.TTY.Slave() && terminal < 0 {
			terminal = i
		}
		files = append(files, f)
	}
	if s.TTY != nil && terminal < 0 {
		return nil, 0, errors.New("starting a program on a terminal: none of its descriptors is the terminal")
	}
	return files, terminal, nil
}

// program finds the file to execute. An element of PATH that is not absolute would mean another file in each
// directory, and counts for nothing.
func program(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, kv := range env { // the last one counts, as in a shell
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if !filepath.IsAbs(dir) || unix.Access(file, unix.X_OK) != nil {
			continue
		}
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
			return file, nil
		}
	}
	return "", fmt.Errorf("starting %s: not found in PATH: %w", name, fs.ErrNotExist)
}

// startError names the directory if it is what is missing: the kernel does not tell.
func startError(name, dir string, err error) error {
	if dir != "" {
		if st, derr := os.Stat(dir); derr != nil {
			return fmt.Errorf("starting %s: %w", name, derr)
		} else if !st.IsDir() {
			return fmt.Errorf("starting %s: %w", name, &fs.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR})
		}
	}
	var perr *fs.PathError
	if errors.As(err, &perr) {
		err = perr.Err
	}
	return fmt.Errorf("starting %s: %w", name, err)
}

// Unclaimed are the living processes that came to us and may belong to one of several jobs, parents before their
// children.
func (o *Owner) Unclaimed() []Process {
	kin.look()
	return living(walk(0, kin.unclaimed(func(p *orphan) bool { return slices.Contains(p.owners(), o) })))
}
