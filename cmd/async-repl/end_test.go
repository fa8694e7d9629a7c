package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/polltest"
)

// trees are commands that start processes of every kind that is hard to find again. They print "pid
// N." for each.
var trees = map[string]string{
	"plain":     `sleep 300 & echo "pid $!."; wait`,
	"nohup":     `nohup sleep 300 > /dev/null 2>&1 & echo "pid $!."; sleep 300`,
	"deaf":      `trap '' HUP TERM INT; bash -c 'echo "pid $$."; while :; do sleep 300; done' & sleep 300`,
	"setsid":    `setsid bash -c 'echo "pid $$."; sleep 300' & sleep 300`,
	"daemon":    `(setsid bash -c 'trap "" HUP TERM; sleep 300 & echo "pid $!."; echo "pid $$."; wait' &); sleep 300`,
	"left":      `nohup setsid sleep 300 > /dev/null 2>&1 & echo "pid $!."`,
	"bare left": `env -i setsid bash -c 'echo "pid $$."; exec sleep 300' & sleep 0.1`,
}

const pythonTrees = `import subprocess, os
for c in ["sleep 300", "exec setsid sleep 300", "exec nohup sleep 300"]:
    print(f"pid {subprocess.Popen(['bash', '-c', c]).pid}.")
if (pid := os.fork()) == 0:
    os.setsid()
    while True: os.read(os.pipe()[0], 1)
print(f"pid {pid}.")`

// plant starts all trees and returns the pids of their processes.
func plant(t *testing.T, s *started) (pids []int) {
	t.Helper()
	return plantSome(t, s, slices.Collect(maps.Keys(trees))...)
}

// plantSome starts the named trees and those of Python and returns the pids of their processes.
func plantSome(t *testing.T, s *started, names ...string) (pids []int) {
	t.Helper()
	var ids []string
	for _, name := range names {
		r := s.do("execute_command_async", "command", trees[name], "wait_seconds", 0)
		ids = append(ids, r.Header("Job ID"))
	}
	r := s.do("execute_python", "code", pythonTrees, "wait_seconds", 30)
	ids = append(ids, r.Header("Job ID"))
	for _, id := range ids {
		r := s.prints(id, "pid ")
		for _, part := range strings.Split(r.Section("STDOUT"), "pid ")[1:] {
			number, _, _ := strings.Cut(part, ".")
			pid, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, s.seen(pid))
		}
	}
	if len(pids) < len(names)+4 {
		t.Fatalf("only %v were started", pids)
	}
	return pids
}

// gone waits until none of the processes is left.
func gone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		processtest.Gone(t, pid)
	}
}

func TestNothingOutlivesTheServer(t *testing.T) {
	ended := map[string][]string{"SIGHUP": {"REPL_KEEPER=off"}} // a front continues
	for name, end := range map[string]func(s *started){
		"end of input": func(s *started) { s.stdin.Close() },
		"SIGTERM":      func(s *started) { s.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":       func(s *started) { s.cmd.Process.Signal(syscall.SIGINT) },
		"SIGHUP":       func(s *started) { s.cmd.Process.Signal(syscall.SIGHUP) },
		"SIGKILL":      func(s *started) { s.cmd.Process.Signal(syscall.SIGKILL) },
		"closed stdout": func(s *started) {
			s.out.Close()
			io.WriteString(s.stdin, toListTools)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "SIGTERM" && name != "SIGKILL" {
				t.Skip("ends in order, as by SIGTERM")
			}
			if !strings.HasPrefix(name, "SIG") || name == "SIGHUP" {
				overStdio(t, "clients come and go, and a hangup has files read again")
			}
			t.Parallel()
			s := startServer(t, ended[name]...)
			pids := plant(t, s)
			begin := time.Now()
			end(s)
			s.exit()
			t.Logf("the server was gone after %v", time.Since(begin))
			gone(t, pids)
		})
	}
}

// callInFlight makes a call that waits for a command, and returns the channel for its reply when the
// command runs.
func (s *started) callInFlight(command string) <-chan client.Reply {
	s.t.Helper()
	reply := make(chan client.Reply, 1)
	ctx := s.ctx()
	go func() { // ends with its call
		got, err := s.Call(ctx, "execute_command_async", pairs([]any{"command", command, "wait_seconds", 100}))
		if err != nil {
			s.t.Error(err)
		}
		reply <- got
	}()
	polltest.Until(s.t, "the job to run", func() bool { return strings.Contains(string(s.do("list_jobs")), "running") })
	return reply
}

func TestEndOfInputAnswersCallsInFlight(t *testing.T) {
	overStdio(t, "there is no end of input")
	t.Parallel()
	s := startServer(t)
	r := s.callInFlight("until [ -e go ]; do sleep 0.01; done; echo done")
	s.stdin.Close()
	s.write("go", "")
	if err := (<-r).Expect("completed", "done"); err != nil {
		t.Error(err)
	}
	if got := s.exit(); got != "exit status 0" {
		t.Error(got)
	}
}

func TestSignalAnswersCallsInFlightAtOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := s.callInFlight("echo on; sleep 300")
	s.cmd.Process.Signal(syscall.SIGTERM)
	if got := (<-r).Header("Status"); got != "running" && !strings.HasPrefix(got, "cancelled") {
		t.Errorf("status %q", got)
	}
	s.exit()
}

// A client that is gone before the first answer ends the server in order, not by SIGPIPE.
func TestOutputClosedFromTheStart(t *testing.T) {
	t.Parallel()
	for range 20 {
		s := startProcess(t)
		s.out.Close()
		if _, err := io.WriteString(s.stdin, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		if err := s.cmd.Wait(); err != nil {
			t.Fatalf("the server ended with %v\n%s", err, s.log)
		}
	}
}

// When the server ends, an idle session writes its buffered output and runs its atexit handlers.
func TestEndLetsPythonExit(t *testing.T) {
	for name, end := range map[string]func(s *started){
		"end of input": func(s *started) { s.stdin.Close() },
		"SIGTERM":      func(s *started) { s.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "end of input" {
				overStdio(t, "clients come and go")
			}
			t.Parallel()
			var lacks []string
			for range 5 { // Python has 250 ms, and can need longer on a busy machine
				if lacks = exitOfPython(t, end); len(lacks) == 0 {
					return
				}
			}
			t.Errorf("after five exits: %q", lacks)
		})
	}
}

// exitOfPython ends a server with a session, and returns what the exit of Python has not done.
func exitOfPython(t *testing.T, end func(s *started)) (lacks []string) {
	s := startServer(t)
	s.do("execute_python", "wait_seconds", 60, "code", `import atexit, csv, tempfile
rows = open("rows.csv", "w")
for i in range(3): _ = csv.writer(rows).writerow([i, i])
atexit.register(lambda: open("bye.txt", "w").write("bye"))
directory = tempfile.TemporaryDirectory(dir=".", prefix="temporary")`)
	end(s)
	s.exit()
	for file, text := range map[string]string{"rows.csv": "0,0\r\n1,1\r\n2,2\r\n", "bye.txt": "bye"} {
		if got, err := os.ReadFile(filepath.Join(s.dir, file)); err != nil || string(got) != text {
			lacks = append(lacks, fmt.Sprintf("%s holds %q, %v", file, got, err))
		}
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "temporary*"))
	if err != nil || len(left) > 0 {
		lacks = append(lacks, fmt.Sprintf("%v is left, %v", left, err))
	}
	return lacks
}

// The reply about the end of a session says that Python's exit was cut off, and which checkpoints
// are dropped.
func TestEndOfASessionSaysWhatIsLost(t *testing.T) {
	needsBranches(t)
	if testing.Short() {
		t.Skip("waits for the limit of an exit")
	}
	t.Parallel()
	s := startServer(t)
	const code = "import atexit, time; _ = atexit.register(time.sleep, 300)"
	job := s.do("execute_python", "code", code, "checkpoint", true, "wait_seconds", 60).Header("Job ID")
	holds(t, s.do("restart_python_worker", "checkpoint", job),
		"Note", "Python did not exit within 1s: atexit handlers may not have run, and open files may lack what was written last")
	holds(t, s.do("delete_session", "session", "default"), "Note", "checkpoints dropped: "+job)
	if got := string(s.do("server_status")); strings.Contains(got, "Checkpoint:") {
		t.Errorf("a checkpoint outlived its session:\n%s", got)
	}
}
