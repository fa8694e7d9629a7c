package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"asyncrepl/internal/test/needtest"
)

// A server that may not inspect every process can't see whether one outside the job reads its
// terminal. The line about the input then claims nothing.
func TestInputThatAProgramOutsideMayRead(t *testing.T) {
	needtest.Root(t, "have another user's processes run beside those of a server")
	overStdio(t, "a server without tokens serves its own user only")
	notApart(t, "no program inside reaches a socket outside")
	t.Parallel()
	name := fmt.Sprintf("async-repl-test-%d", os.Getpid())
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := prepare(t)
	s.becomeOrdinary(t, []string{s.dir})
	s.open()
	for want, program := range map[string]string{
		"sent; whether a program outside the job reads it can't be seen": `import os, socket; a = socket.socket(socket.AF_UNIX); a.connect("\0` + name + `"); print(f"pid {os.getpid()}."); a.recv(1)`,
		"no program was waiting for it; it is buffered until one reads":  `import os, time; print(f"pid {os.getpid()}."); time.sleep(1000)`,
	} {
		id := s.do("execute_command_async", "command", "python3 -ISuc '"+program+"'", "wait_seconds", 0).Header("Job ID")
		asleep(t, s.seen(planted(t, s.prints(id, "pid ")))) // it waits for its socket, or for the time
		if got := s.do("send_command_input", "job_id", id, "text", "x\n", "wait_seconds", 1).Header("Input"); got != want {
			t.Errorf("%s: the line is %q, want %q", strings.Fields(program)[1], got, want)
		}
		s.do("cancel_job", "job_id", id, "force", true)
	}
}
