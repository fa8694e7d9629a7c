package worker

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/internal/process/cgroup"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"

	"github.com/oklog/ulid/v2"
)

// The worker's own program, sent to each worker over its channel. Its tests and the package's
// __init__.py stay behind.
//
//go:embed [a-z]*.py
var source embed.FS

// A Config says how a worker starts.
type Config struct {
	Owner *process.Owner
	// Python returns the path of the interpreter. It can make the environment.
	Python func(ctx context.Context) (string, error)
	Env    func() []string // KEY=value, the full environment of a worker
	Dir    string          // the directory in which code runs

	// Memory is the most memory, in MiB, that a worker and each process that it starts can write
	// to. 0: no limit.
	Memory int

	// The names of the settings that choose Python, Dir and Memory, for errors that say what to
	// change.
	PythonSetting, DirSetting, MemorySetting string

	// Start bounds the time from the start of a worker to its first event: a start-up file that
	// hangs would otherwise hang the first job. 0 means 60 s, enough for a busy machine and a cold
	// disk.
	Start time.Duration

	// OnReset is called when the session drops its variables, before jobs that are started later can
	// make others: at a restart or the end of the session. It can be nil.
	OnReset func()
}

// A program is the Python code that a worker runs before any user code.
type program struct {
	bootstrap string // the code on the command line, which reads the rest from the channel
	files     string // the name and the length of each file, as the items of a Python list
	texts     []byte // the files' contents, one after another
}

// header returns what bootstrap.py reads from the channel before the texts of the files.
func (p program) header(token string) []byte {
	line := fmt.Sprintf("(%q, [%s])\n", token, p.files)
	return fmt.Appendf(nil, "%d\n%s", len(line)+len(p.texts), line)
}

var loadProgram = sync.OnceValues(func() (prog program, err error) {
	err = fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := source.ReadFile(path)
		if name := d.Name(); name == "bootstrap.py" {
			prog.bootstrap = string(text)
		} else {
			prog.files += fmt.Sprintf("(%q, %d), ", name, len(text))
			prog.texts = append(prog.texts, text...)
		}
		return err
	})
	return prog, err
})

// Start starts an interpreter and waits for its first event. What it writes until then is output of
// p's job.
func Start(ctx context.Context, cfg Config, p *jobs.Port) (*Worker, error) {
	if cfg.Start == 0 {
		cfg.Start = time.Minute
	}
	// First, because cfg.Python makes an environment in a missing directory.
	if err := cfg.checkDir(); err != nil {
		return nil, err
	}
	python, err := cfg.Python(ctx)
	if err != nil {
		return nil, err
	}
	prog, err := loadProgram()
	if err != nil {
		return nil, err
	}
	w := &Worker{
		events: make(chan Event), eof: make(chan struct{}), ending: make(chan struct{}),
		port: p, kick: func() {},
	}
	if err := w.launch(python, prog, cfg); err != nil {
		w.closePipes()
		if w.ch != nil {
			w.ch.close()
		}
		if w.terminal != nil {
			w.terminal.Close()
		}
		w.group.Remove()
		return nil, runner.Scarce(err)
	}
	w.connect()
	if err := w.hello(ctx, python, cfg, prog); err != nil {
		w.End(process.Ladder{From: jobs.Kill})
		return nil, err
	}
	return w, nil
}

// launch starts the process with its terminal, its channel and a pair of pipes. After an error the
// caller closes what was opened.
func (w *Worker) launch(python string, prog program, cfg Config) (err error) {
	if w.terminal, err = runner.OpenTerminal(); err != nil {
		return fmt.Errorf("a Python session needs a terminal: %w", err)
	}
	var theirs *os.File
	if w.ch, theirs, err = newChannel(); err != nil {
		return err
	}
	defer theirs.Close() // while we hold it, our end never sees the end of file
	pipes, err := newJobPipes()
	if err != nil {
		return err
	}
	defer pipes.closeWriters()
	w.read(w.port, pipes)
	if cfg.Memory > 0 {
		if w.group, err = cgroup.New(int64(cfg.Memory) << 20); err != nil {
			return fmt.Errorf("limiting the memory of the Python worker: %w", err)
		}
	}
	w.handle, err = cfg.Owner.Start(process.Spec{
		Argv: []string{python, "-u", "-X", "faulthandler", "-c", prog.bootstrap},
		Env:  workerEnv(cfg.Env(), cfg.Dir), Dir: "/", TTY: w.terminal.PTY, // see bootstrap.py
		Files: []*os.File{nil, pipes.out.w, pipes.errs.w, theirs},
		Mark:  ulid.Make().String(), Kills: w.group.Counter(),
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOEXEC) {
		err = fmt.Errorf("starting the Python worker: %w; %s", err, cfg.otherPython())
	}
	if err != nil {
		return err
	}
	if cfg.Memory > 0 { // the worker has no program yet, so no user code runs without the limit
		err := w.group.Add(w.handle.PID())
		if err == nil {
			err = limitMemory(w.handle.PID(), int64(cfg.Memory)<<20)
		}
		if err != nil {
			w.handle.Stop(process.Ladder{From: jobs.Kill})
			w.handle.Forget()
			return fmt.Errorf("limiting the memory of the Python worker: %w", err)
		}
	}
	return nil
}

// otherPython says how to fix an interpreter that does not start.
func (c Config) otherPython() string {
	return "set " + c.PythonSetting + " to an interpreter that works"
}

// checkDir returns an error if a worker can't start in the workspace.
func (c Config) checkDir() error {
	st, err := os.Stat(c.Dir)
	if err == nil && !st.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return fmt.Errorf("starting the Python worker: its directory can't be entered: %w: make it again, or set %s to another", err, c.DirSetting)
	}
	return nil
}

// workerEnv returns env for a process that starts in another directory and then goes to dir: the
// relative paths of PYTHONPATH are relative to dir. PYTHONUNBUFFERED has Python children of the
// session show their output at once, unless env sets it otherwise
// (https://docs.python.org/3/using/cmdline.html#envvar-PYTHONUNBUFFERED). Without it their prints
// are block-buffered, because they write to a pipe.
func workerEnv(env []string, dir string) []string {
	out := make([]string, 0, len(env)+2)
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "PYTHONUNBUFFERED=") }) {
		out = append(out, "PYTHONUNBUFFERED=1")
	}
	for _, kv := range env {
		if strings.HasPrefix(kv, "PWD=") {
			continue
		}
		if list, ok := strings.CutPrefix(kv, "PYTHONPATH="); ok && list != "" {
			parts := filepath.SplitList(list)
			for i, p := range parts {
				if !filepath.IsAbs(p) {
					parts[i] = filepath.Join(dir, p)
				}
			}
			kv = "PYTHONPATH=" + strings.Join(parts, string(os.PathListSeparator))
		}
		out = append(out, kv)
	}
	return append(out, "PWD="+dir)
}

// listen hands events to the holder of the turn, until the channel ends.
func (w *Worker) listen() {
	defer close(w.eof)
	err := w.ch.read(func(ev Event) {
		switch ev := ev.(type) {
		case heldEvent:
			w.flushHeld(ev)
			return
		case displayEvent:
			w.show(ev)
			return
		case poolsEvent:
			w.readPools(ev.files)
			return
		case loopEvent:
			w.mu.Lock()
			w.loop = ev.FD
			w.mu.Unlock()
			return
		case RaisedEvent:
			w.raised.Add(1)
		case DoneEvent:
			w.mu.Lock()
			w.sockets = ev.Sockets
			w.mu.Unlock()
			w.leave(ev.ID, ev.DisplaysLeft)
		}
		select {
		case w.events <- ev:
		case <-w.ending:
		}
	})
	w.unread = errors.Is(err, syscall.ECONNRESET)
}

// hello sends the worker its program and waits for its first event.
func (w *Worker) hello(ctx context.Context, python string, cfg Config, prog program) error {
	until := time.Now().Add(cfg.Start)
	silent := func() error {
		return fmt.Errorf("starting the Python worker: %s said nothing for %v, a start-up file of its own (sitecustomize, a .pth file) may hang; %s", python, cfg.Start, cfg.otherPython())
	}
	switch err := w.ch.writeProgram(ctx, prog, until); {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded): // the socket is full, and Python reads nothing
		return silent()
	case err != nil:
		select { // a closed end most probably means that Python is about to exit
		case <-w.handle.Done():
			return w.startupError(python, cfg)
		case <-time.After(eofGrace):
			return fmt.Errorf("starting the Python worker: %s does not take its program: %v; %s", python, err, cfg.otherPython())
		}
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case ev := <-w.events: // any event proves that the program runs: it begins with our token
		hello, _ := ev.(helloEvent)
		w.stackReader = newStackReader(w.handle.PID(), hello.Version, python, cfg.Dir)
		return nil
	case <-w.handle.Done():
		return w.startupError(python, cfg)
	case <-timer.C:
		return silent()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// startupTail is how many bytes of the output of a worker that did not start are searched for the
// reason.
const startupTail = 4096

// startupError returns the error of a worker that died before its first event. The reason is mostly
// the last line that it wrote to stderr, which is in the job's output.
func (w *Worker) startupError(python string, cfg Config) error {
	w.Drain()
	reason := ""
	for line := range strings.Lines(view.Text(w.port.Tail(startupTail))) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(reason, ": Fatal Python error") { // stacks follow
			reason = ": " + line
		}
	}
	fix := cfg.otherPython()
	if slices.ContainsFunc(cfg.Env(), func(kv string) bool { return strings.HasPrefix(kv, "PYTHONHOME=") }) {
		fix = "unset PYTHONHOME, or " + fix
	}
	if cfg.Memory > 0 {
		fix = fmt.Sprintf("its limit of %d MB can be too small: raise %s, or %s", cfg.Memory, cfg.MemorySetting, fix)
	}
	return fmt.Errorf("starting the Python worker: %s %s before it was ready%s; %s", python, w.ExitText(), reason, fix)
}
