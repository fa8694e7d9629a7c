package worker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/callstack"
	"asyncrepl/internal/pystack"
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

// A sight is what it takes to look at the stack of a worker.
type sight struct {
	version string // of the interpreter
	target  *pystack.Target
	dirs    []string   // of files whose lines can be shown
	said    *sync.Once // why no look is possible
}

// newSight returns the sight of a process, which runs in dir.
func newSight(pid int, version, python, dir string) *sight {
	return (&sight{version: version, dirs: sourceDirs(python, dir)}).of(pid)
}

// of returns the sight of another process that runs the same.
func (s *sight) of(pid int) *sight {
	return &sight{version: s.version, target: pystack.NewTarget(pid, s.version, ownProgram), dirs: s.dirs, said: new(sync.Once)}
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

// Looker returns a looker at the job that begins now. code returns the code of a job of the
// session, to show lines of; not ok: it is not known.
func (w *Worker) Looker(code func(job string) (text string, ok bool)) callstack.Looker {
	return &looker{sight: w.sight, code: code, own: codeFile(w.LastJob()), began: time.Now()}
}

// Python knows the code of a job by a file name, which sources.py makes.
const codePrefix, codeSuffix = "<job ", ">"

func codeFile(job string) string { return codePrefix + job + codeSuffix }

// A looker looks at one job.
type looker struct {
	*sight
	code func(job string) (string, bool)
	own  string
	// began is when the job did: files that were changed later are not what runs.
	began time.Time

	// Guarded by mu.
	mu   sync.Mutex
	last pystack.Stack
	when time.Time // of the last look; zero: there was none
}

// Look returns the stack. Why no look is possible is said once for each worker.
func (l *looker) Look() (callstack.Stack, error) {
	s, err := l.target.Look()
	if errors.As(err, new(*pystack.UnavailableError)) {
		said := err
		err = callstack.ErrSaid
		l.said.Do(func() { err = said })
	}
	if err != nil {
		return callstack.Stack{}, err
	}
	seen := callstack.Stack{Outer: s.Outer, More: s.More, Awaits: s.Awaits, Since: l.since(s, time.Now()), Own: l.own, Outside: outside(s), Stopped: s.Stopped}
	lines := pystack.Sources{Code: l.source, Dirs: l.dirs, Since: l.began, Tag: cacheTag(l.version)}.Lines(s.Frames)
	for i, f := range s.Frames {
		seen.Calls = append(seen.Calls, callstack.Call{File: f.File, Function: f.Function, Line: f.Line, Source: lines[i]})
	}
	return seen, nil
}

// outside says where a worker is that runs none of the user's code, by the command at work in main.py.
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

// cacheTag returns how CPython of a version such as 3.11.7 marks the files of cached modules.
func cacheTag(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return "cpython-" + strings.Join(parts[:min(2, len(parts))], "")
}

// source returns the code that Python knows by a file name, if it is that of a job.
func (l *looker) source(file string) (string, bool) {
	job, isCode := strings.CutPrefix(file, codePrefix)
	if !isCode {
		return "", false
	}
	return l.code(strings.TrimSuffix(job, codeSuffix))
}

// idle is how little of a processor a thread uses that only wakes now and then: one part in so
// many.
const idle = 50

// since compares a stack with that of the last look, and remembers it.
func (l *looker) since(s pystack.Stack, now time.Time) callstack.Since {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, when := l.last, l.when
	l.last, l.when = s, now
	switch {
	case when.IsZero():
		return callstack.First
	case s.Mark != last.Mark:
		return callstack.Moved
	case s.Running || (s.CPU-last.CPU)*idle > now.Sub(when):
		return callstack.Worked
	}
	return callstack.Still
}
