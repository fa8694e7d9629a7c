//go:build unix

package engine

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/pystack"
	"asyncrepl/internal/process/cgroup"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/jobs"
	"asyncrepl/pkgmgr"
)

// Status returns the state of the engine. It starts nothing and makes no file.
func (e *Engine) Status(sc Scope) overview.Server {
	census := e.owner.Census()
	s := overview.Server{
		Version: e.config.Version, PID: e.config.PID, Started: e.started, Workspace: sc.Workspace,
		Jobs: e.jobs.Count(), Disk: e.jobs.Usage(),
		Processes: census.Trees.Processes, Memory: census.Trees.Memory, Self: census.Self,
	}
	s.Sessions, s.MaxSessions = e.Sessions()
	s.Checkpoints, s.Shells = e.checkpoints(), e.Shells()
	for _, p := range census.Orphans {
		s.Orphans = append(s.Orphans, jobs.Process{PID: p.PID, Program: p.Program})
	}
	does := func(works bool, what, lack string) {
		if works {
			s.Works = append(s.Works, what)
		} else {
			s.Lacks = append(s.Lacks, lack)
		}
	}
	err := tryTerminal()
	does(err == nil, "terminals", fmt.Sprintf("no terminal can be opened (%v): commands run on pipes only, and Python sessions not at all", err))
	platform(census, does)
	err = pystack.Available()
	does(err == nil, "the stack of running Python is shown", fmt.Sprintf("the stack of running Python is not shown: %v", err))
	does(census.Guard != 0 || !census.Started, guardText(census.Guard),
		"the guard has exited; the next start of a process replaces it, and until then processes outlive a server that is killed")
	s.Works = append(s.Works, "shell "+e.config.Shell)
	e.memoryLimits(&s)
	if box := e.config.Sandbox; box != nil {
		s.Sandbox, s.Removed, s.Unprotected = box.Summary, box.Removed, unprotected(box.Seals)
		e.mu.Lock()
		s.Denied = e.denied
		e.mu.Unlock()
	}
	s.Search = cmp.Or(variables(sc.base.given)["PATH"], "an empty PATH") + " (PATH), for python3 and uv"
	python, err := sc.base.packages.Describe()
	installer := "venv and pip (with uv on PATH installs are faster)"
	if python.UV != "" {
		installer = "uv " + python.UV
	}
	s.Works = append(s.Works, installer)
	if err != nil {
		s.Lacks = append(s.Lacks, err.Error())
	} else {
		s.Python = pythonText(python)
	}
	s.NoPip = sc.base.packages.ProgramsError()
	if dir := e.config.StateDir; dir != "" {
		s.StateDir, s.Free = dir, freeSpace(dir)
	} else {
		s.Lacks = append(s.Lacks, "finding a place for records and long output: $HOME is not defined: set REPL_STATE_DIR")
	}
	st := e.records.Status()
	s.Records = overview.Records{Off: e.config.NoHistory, Dir: st.Dir, Failure: st.Failure, Unread: st.Unread}
	return s
}

// memoryLimits adds to s how the memory of sessions is limited, if any limit is set.
func (e *Engine) memoryLimits(s *overview.Server) {
	each, together := "memory limits of sessions, for each process and not for all together", "memory limits of sessions, for all processes together (cgroup v2)"
	if e.config.Sandbox != nil {
		s.Lacks = append(s.Lacks, "in a sandbox memory is limited for each process only, not for all processes of a session together")
	}
	if mb := e.config.MemoryMB; mb > 0 {
		each = fmt.Sprintf("a memory limit of %d MB for each process of a session, not for all together", mb)
		together = fmt.Sprintf("a memory limit of %d MB for all processes of a session together (cgroup v2)", mb)
	} else if !slices.ContainsFunc(s.Sessions, func(s overview.Session) bool { return s.MemoryMB > 0 }) {
		return
	}
	if e.config.Sandbox != nil {
		s.Works = append(s.Works, each)
		return
	}
	if err := cgroup.Available(); err != nil {
		s.Works = append(s.Works, each)
		s.Lacks = append(s.Lacks, "cgroup v2 can't limit all processes of a session together: "+err.Error())
		return
	}
	s.Works = append(s.Works, together)
}

// tryTerminal opens and closes a terminal, and returns the error.
func tryTerminal() error {
	pty, err := tty.Open(24, 80)
	if err == nil {
		pty.Close()
	}
	return err
}

func guardText(pid int) string {
	if pid == 0 {
		return "guard (started with the first job)"
	}
	return fmt.Sprintf("guard (pid %d)", pid)
}

func pythonText(d pkgmgr.Description) string {
	version := ""
	if d.Version != "" {
		version = " (" + d.Version + ")"
	}
	by := ""
	if d.Setting != "" {
		by = ", named by " + d.Setting
	}
	switch {
	case d.There:
		return d.Python + version + by
	case d.Dir == "":
		return d.Python + " is missing" + by
	case d.Base == "":
		return d.Dir + " would be made" + by + ", but there is no python3 on PATH"
	}
	return d.Dir + " will be made on first use from " + d.Base + version + by
}

// interpreter returns the interpreter of an environment, or the one that it will have, or "".
func interpreter(packages *pkgmgr.Manager) string {
	python, err := packages.Describe()
	switch {
	case err != nil:
		return ""
	case python.There:
		return python.Python
	}
	return python.Python + " (not made yet)"
}

// freeSpace returns how many bytes are free on the file system of dir, which need not exist yet, or
// -1 if that is not known.
func freeSpace(dir string) int64 {
	for {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil {
			return int64(st.Bavail) * int64(st.Bsize)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return -1
		}
		dir = up
	}
}
