package worker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/kernel/pystack"
	"asyncrepl/internal/output"
	"asyncrepl/internal/text/callstack"
)

// ownProgram is the worker's program as its stack shows it. If a function that it names moves, no
// look succeeds any more.
var ownProgram = pystack.Program{
	Bottom: []pystack.Place{
		{File: "<string>", Function: "<module>"}, // bootstrap.py
		{File: "<async-repl/loader.py>", Function: "start"},
		{File: "<async-repl/main.py>", Function: "run"}, // it has said hello
	},
	Own:       "<async-repl/",
	Loop:      pystack.Place{File: "<async-repl/tasks.py>", Function: "run"},
	Coroutine: 1,
}

// A stackReader reads the stack of a worker.
type stackReader struct {
	version string // the version of the interpreter, such as 3.12.1
	target  *pystack.Target
	dirs    []string   // directories of files whose lines can be shown
	said    *sync.Once // says once why no look is possible
}

// newStackReader returns the stackReader of a process, which runs in dir.
func newStackReader(pid int, version, python, dir string) *stackReader {
	return (&stackReader{version: version, dirs: sourceDirs(python, dir)}).of(pid)
}

// of returns the stackReader of another process with the same interpreter and program.
func (s *stackReader) of(pid int) *stackReader {
	return &stackReader{version: s.version, target: pystack.NewTarget(pid, s.version, ownProgram), dirs: s.dirs, said: new(sync.Once)}
}

// sourceDirs returns the session's directory, the environment of an interpreter, and the libraries
// of the interpreter that the environment was made from.
func sourceDirs(python, dir string) []string {
	dirs := []string{dir}
	environment := filepath.Dir(filepath.Dir(python))
	if _, err := os.Stat(filepath.Join(environment, "pyvenv.cfg")); err == nil {
		dirs = append(dirs, environment)
	}
	if base, err := filepath.EvalSymlinks(python); err == nil {
		dirs = append(dirs, filepath.Join(filepath.Dir(filepath.Dir(base)), "lib"))
	}
	return dirs
}

// Looker returns a looker at the job that begins now, whose code has the file name file. code returns
// the newest job of the session whose code has a file name, and the code, so that the looker can name
// the job and show its lines. ok is false if the code is unknown.
func (w *Worker) Looker(file string, code func(file string) (job, text string, ok bool)) *Looker {
	w.mu.Lock()
	p := w.port
	w.mu.Unlock()
	return &Looker{stackReader: w.stackReader, code: code, file: file, job: p.ID(), out: p.Output(), began: time.Now()}
}

// jobFile returns the name that stands for the file name of a job's code in stacks and tracebacks.
func jobFile(job string) string { return "<job " + job + ">" }

// A Looker looks at one job.
type Looker struct {
	*stackReader
	code func(file string) (job, text string, ok bool)
	file string        // the file name of the job's code
	job  string        // the id of the job
	out  output.Reader // the job's log
	// began is when the job began. A file that was changed later is not the code that runs, so its
	// lines are not shown.
	began time.Time

	// Guarded by mu.
	mu    sync.Mutex
	last  pystack.Stack
	wrote int64     // bytes of output at the last look
	when  time.Time // the time of the last look; zero: there was none
}

// Look returns the stack. Why no look is possible is said once for each worker.
func (l *Looker) Look() (callstack.Stack, error) {
	s, err := l.target.Look()
	if errors.As(err, new(*pystack.UnavailableError)) {
		said := err
		err = callstack.ErrSaid
		l.said.Do(func() { err = said })
	}
	if err != nil {
		return callstack.Stack{}, err
	}
	seen := callstack.Stack{Outer: s.Outer, More: s.More, Awaits: s.Awaits, Since: l.since(s, l.out.Stat().End, time.Now()), Own: jobFile(l.job), Outside: outside(s), Stopped: s.Stopped}
	lines := l.sources().Lines(s.Frames)
	for i, f := range s.Frames {
		seen.Calls = append(seen.Calls, callstack.Call{File: l.shown(f.File), Function: f.Function, Line: f.Line, Source: lines[i]})
	}
	return seen, nil
}

// sources returns the texts that the job can be running.
func (l *Looker) sources() pystack.Sources {
	return pystack.Sources{Code: l.source, Dirs: l.dirs, Since: l.began, Tag: cacheTag(l.version)}
}

// Place identifies the instruction at which the code is: it changes with the stack. It is 0 if no
// look is possible. The next Look does not count it.
func (l *Looker) Place() uint64 {
	s, _ := l.target.Look() // an error: its Mark is 0
	return s.Mark
}

// Waits says which C code keeps the job from running a signal handler: place is the instruction
// that Place returned before, and the code is still there. It returns "" if the code is elsewhere,
// or can't be seen.
//
// Waits names the function as the source does, and only if the source leaves no doubt. If the
// user's code has called a function of a library, and that has called C code, it names the
// library's function.
func (l *Looker) Waits(place uint64) string {
	s, err := l.target.Look()
	n := len(s.Frames)
	switch {
	case err != nil || s.Mark != place || place == 0:
		return ""
	case n == 0:
		return "Python is " + outside(s)
	}
	text, in := l.sources(), s.Frames[n-1]
	if l.library(in.File) && n > 1 && !l.library(s.Frames[n-2].File) {
		if name := text.Called(s.Frames[n-2]); name != "" {
			return "waiting for " + name + " to return"
		}
	}
	at := callstack.Call{File: l.shown(in.File), Function: in.Function, Line: in.Line}.At(jobFile(l.job))
	switch name := text.Called(in); {
	case name == "":
		return "waiting for C code to return, " + at
	case l.library(in.File):
		return "waiting for " + name + " to return, " + at
	default:
		return "waiting for " + name + " to return"
	}
}

// In reports whether the innermost call is one of a package. It is false if no look is possible.
func (l *Looker) In(name string) bool {
	s, err := l.target.Look()
	return err == nil && len(s.Frames) > 0 && strings.Contains(s.Frames[len(s.Frames)-1].File, "-packages/"+name+"/")
}

// library reports whether a file belongs to Python or to a package, and not to the user.
func (l *Looker) library(file string) bool {
	if strings.HasPrefix(file, "<frozen ") || strings.Contains(file, "/site-packages/") || strings.Contains(file, "/dist-packages/") {
		return true
	}
	return slices.ContainsFunc(l.dirs[1:], func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
}

// outside says what a worker does while it runs none of the user's code, by the command that
// main.py serves.
func outside(s pystack.Stack) string {
	serves := func(command string) bool {
		return slices.Contains(s.Own, pystack.Place{File: "<async-repl/main.py>", Function: command})
	}
	switch {
	case s.Loop:
		return "in the event loop, between two steps of its code"
	case serves("exec"):
		return "outside of its code, which is being compiled or whose result is being shown"
	case serves("fork"):
		return "outside of its code, while Python is being forked"
	}
	return "outside of its code, which has not begun or has just ended"
}

// cacheTag returns the tag in the file names of modules that a CPython such as 3.11.7 caches
// (https://peps.python.org/pep-3147/).
func cacheTag(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return "cpython-" + strings.Join(parts[:min(2, len(parts))], "")
}

// source returns the code that has a file name. ok is false for any other file.
func (l *Looker) source(file string) (text string, ok bool) {
	if strings.HasPrefix(file, codePrefix) {
		_, text, ok = l.code(file)
	}
	return text, ok
}

// shown returns the name to show for a file. If the file name stands for code, it is the name of the
// job that ran it.
func (l *Looker) shown(file string) string {
	if !strings.HasPrefix(file, codePrefix) {
		return file
	}
	if job, _, ok := l.code(file); ok {
		return jobFile(job)
	}
	if file == l.file { // the code of a request, which the history does not have
		return jobFile(l.job)
	}
	return file
}

// idle separates work from waking now and then: a thread that only wakes uses less than 1/idle of a
// processor.
const idle = 50

// since compares the stack and the amount of output with the last look's, and remembers them. The
// same stack proves no standstill: a loop comes to the same place again, often after a sleep that
// uses hardly any CPU time. Only a thread that has not left its sleep has used no nanosecond of CPU
// time and made no context switch.
func (l *Looker) since(s pystack.Stack, wrote int64, now time.Time) callstack.Since {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, lastWrote, when := l.last, l.wrote, l.when
	l.last, l.wrote, l.when = s, wrote, now
	switch {
	case when.IsZero():
		return callstack.First
	case s.Mark != last.Mark:
		return callstack.Moved
	case s.Running || (s.CPU-last.CPU)*idle > now.Sub(when):
		return callstack.Worked
	case s.Switches == 0 || s.Switches != last.Switches || s.CPU != last.CPU || wrote != lastWrote:
		return callstack.Same
	}
	return callstack.Still
}
