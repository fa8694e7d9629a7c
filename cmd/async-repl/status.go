//go:build unix

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/mcpserver"
	"asyncrepl/internal/tty"
	"asyncrepl/internal/waiting"
	"asyncrepl/jobs"
	"asyncrepl/pkgmgr"
	"asyncrepl/pyrepl"
)

// status tells how the engine stands. It starts nothing and makes no file.
func (e *engine) status(_ context.Context, sc mcpserver.Scope) mcpserver.ServerStatus {
	census := e.owner.Census()
	s := mcpserver.ServerStatus{
		Started: e.started, Sessions: e.sessionStatus(sc), MaxSessions: e.set.maxSessions,
		Processes: census.Trees.Processes, Memory: census.Trees.Memory, Self: census.Self,
	}
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
	err := terminals()
	does(err == nil, "terminals", fmt.Sprintf("no terminal can be opened (%v): run commands with tty=false; Python sessions need one", err))
	if lacks != "" {
		s.Lacks = append(s.Lacks, lacks)
	} else {
		does(waiting.Sees(cmp.Or(census.Guard, os.Getpid())), "prompts of programs are seen",
			"the kernel does not show what programs wait for: prompts of shell programs are not seen")
		does(census.Adopts, "processes that left their session are found",
			"this server may not adopt orphans: processes that left their session are found by their marks only")
	}
	does(census.Guard != 0 || !census.Started, guardText(census.Guard),
		"the guard has died and is replaced before the next job; until then nothing ends what is left if the server is killed")
	s.Works = append(s.Works, "shell "+e.shell)
	python, err := e.pkgs.Describe()
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
	if dir, err := e.statePath(); err == nil {
		s.StateDir, s.Free = dir, freeSpace(dir)
	} else {
		s.Lacks = append(s.Lacks, err.Error())
	}
	return s
}

// terminals tells whether terminals can be opened.
func terminals() error {
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

// sessionStatus is how the sessions of the scope's tenant stand, by name.
func (e *engine) sessionStatus(sc mcpserver.Scope) []mcpserver.SessionStatus {
	e.mu.Lock()
	sessions := make(map[string]*pyrepl.Session)
	for key, s := range e.sessions {
		if key.tenant == sc.Tenant {
			sessions[key.name] = s
		}
	}
	e.mu.Unlock()
	var list []mcpserver.SessionStatus
	for name, s := range sessions {
		st := s.State()
		list = append(list, mcpserver.SessionStatus{Name: name, PID: st.PID, Memory: st.Memory, Job: st.Job, Queued: st.Queued})
	}
	slices.SortFunc(list, func(a, b mcpserver.SessionStatus) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// freeSpace is how many bytes are free where dir is or would be, -1 if that is
// not known.
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
