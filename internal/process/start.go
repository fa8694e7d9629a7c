//go:build unix

package process

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/cgroup"
	"asyncrepl/internal/process/child"
	"asyncrepl/internal/terminal/tty"
)

// ErrShutdown is the error of a start after [Owner.Shutdown].
var ErrShutdown = errors.New("shutting down")

// Config configures an Owner.
type Config struct {
	// Guard is the argument vector of the guard, a program that calls guard.Run. If it is empty,
	// nothing kills the remaining processes if this program is killed. GuardEnv is the guard's full
	// environment.
	Guard    []string
	GuardEnv []string

	Log *slog.Logger // nil: no log
}

// The environment variables that mark the processes of a job: one says which job, the other which
// Owner started it.
const (
	jobMark   = "ASYNC_REPL_JOB"
	ownerMark = "ASYNC_REPL_JOB_OWNER"
)

// An Owner starts processes and is responsible for them and their descendants: Shutdown ends every
// one that still runs.
type Owner struct {
	config Config
	token  func() string // marks the environments of all processes that o starts
	null   *os.File
	guard  *guardLink
	kills  *oomCounter
	closed atomic.Bool

	// Limits. Tests set some to more than any machine needs.
	settle, remaining, grace, exit, limit time.Duration
}

// oomKills is shared by all Owners: the kernel counts the kills of the whole program.
var oomKills = newOOMCounter(cgroup.Kills)

// NewOwner makes this program the one that adopts its orphaned descendants, and returns an Owner
// that has started nothing. The caller must call Shutdown.
func NewOwner(c Config) (*Owner, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	// os.OpenFile would start the poller.
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	reaper.join()
	o := &Owner{
		config: c, token: sync.OnceValue(rand.Text), null: os.NewFile(uintptr(null), os.DevNull), kills: oomKills,
		settle: settleLimit, remaining: remainingGrace, grace: shutdownGrace, exit: ExitGrace, limit: shutdownLimit,
	}
	o.guard = &guardLink{owner: o, limit: guardWriteLimit, added: make(map[int]procfs.Process)}
	return o, nil
}

// A Spec describes a process to start.
type Spec struct {
	Argv []string // a name without a slash is looked up in the PATH of Env
	Env  []string // the full environment; the job's marks are added
	Dir  string   // empty: our own

	// TTY, if not nil, becomes the controlling terminal.
	TTY *tty.PTY

	// Files are the descriptors from 0 on; there are at least three. A nil means the terminal, or
	// /dev/null if TTY is nil.
	Files []*os.File

	Mark string // the job's or worker's id

	// Kills, if not nil, counts the OOM kills of the control group that only this process and its
	// tree will be in. Nil: the process stays in ours.
	Kills func() (uint64, error)
}

// Start starts a program as the leader of a new session and group, with no signal ignored or
// blocked. The files stay the caller's, which closes its copies of the program's ends.
func (o *Owner) Start(s Spec) (*Handle, error) {
	if o.closed.Load() {
		return nil, ErrShutdown
	}
	if len(s.Argv) == 0 {
		return nil, errors.New("starting nothing: no program named")
	}
	env := o.environment(s)
	path, err := child.LookPath(s.Argv[0], env)
	if err != nil {
		return nil, err
	}
	files, terminal, err := o.descriptors(s)
	if err != nil {
		return nil, err
	}
	attr := &os.ProcAttr{Dir: s.Dir, Env: env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true}}
	h := o.newHandle(s, files)
	if s.TTY != nil {
		attr.Sys.Setctty, attr.Sys.Ctty = true, terminal
	}
	if err := reaper.launch(&o.closed, path, s.Argv, attr, h.enter); err != nil {
		return nil, err
	}
	return o.begin(h)
}

// newHandle returns the Handle of a process that is about to be started on files, and ensures that
// there is a guard for it.
func (o *Owner) newHandle(s Spec, files []*os.File) *Handle {
	o.guard.ensure()
	kills := o.kills
	if s.Kills != nil {
		kills = newOOMCounter(s.Kills)
	}
	return &Handle{
		owner: o, tty: s.TTY, mark: s.Mark, files: identifyingFiles(files, s.TTY), kills: kills, killsBefore: kills.Recent(),
		done: make(chan struct{}), treeGone: make(chan struct{}),
	}
}

// begin follows a process that is in the table of started children.
func (o *Owner) begin(h *Handle) (*Handle, error) {
	if !o.guard.add(h.self) { // the guard has exited since
		o.guard.ensure()
	}
	go h.follow()        // owned by the handle; ends when the process has been reaped
	if o.closed.Load() { // Shutdown may have scanned before the process was there
		h.kill()
		return nil, ErrShutdown
	}
	return h, nil
}

// environment returns the environment of s with our marks, which replace the marks of a server that
// we run under.
func (o *Owner) environment(s Spec) []string {
	const job, owner = jobMark + "=", ownerMark + "="
	env := make([]string, 0, len(s.Env)+2)
	for _, kv := range s.Env {
		if !strings.HasPrefix(kv, job) && !strings.HasPrefix(kv, owner) {
			env = append(env, kv)
		}
	}
	if s.Mark != "" {
		env = append(env, job+s.Mark)
	}
	return append(env, owner+o.token())
}

// descriptors returns the files of s with the missing ones filled in, and the descriptor of the
// terminal, or -1.
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

// identifyingFiles returns the identities of the files that only one job has open: pipes, sockets
// and its terminal.
func identifyingFiles(files []*os.File, terminal *tty.PTY) []procfs.FileID {
	var ids []procfs.FileID
	for _, f := range files {
		_ = descriptor.Use(f, func(fd int) error { // an error: the file is closed
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				return err
			}
			if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFIFO || kind == unix.S_IFSOCK || terminal != nil && f == terminal.Slave() {
				ids = append(ids, procfs.Identify(&st))
			}
			return nil
		})
	}
	return ids
}
