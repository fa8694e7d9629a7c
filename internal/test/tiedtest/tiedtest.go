//go:build linux

// Package tiedtest starts programs that end with the test binary, also if that is killed.
package tiedtest

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Start starts cmd as a program that gets sig when the test binary ends.
//
// The kernel sends that signal when the thread that has started the program ends (PR_SET_PDEATHSIG in
// https://man7.org/linux/man-pages/man2/pr_set_pdeathsig.2const.html), and a thread ends with a goroutine that is
// locked to it. One thread starts all these programs, and it never ends.
func Start(cmd *exec.Cmd, sig syscall.Signal) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = sig
	starter.Do(func() { go start() }) // owned by the test binary; ends with it
	s := started{cmd, make(chan error)}
	starts <- s
	return <-s.err
}

type started struct {
	cmd *exec.Cmd
	err chan error
}

var (
	starter sync.Once
	starts  = make(chan started)
)

func start() {
	runtime.LockOSThread()
	for s := range starts {
		s.err <- s.cmd.Start()
	}
}
