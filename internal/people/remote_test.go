//go:build unix

package people

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/reply/resource"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
)

// engineArg makes the test binary play an engine. The directory of the sockets, the workspace and
// an interpreter follow.
const engineArg = "people-engine"

// playEngine serves commands until its standard input ends.
func playEngine(place, workspace, python string) int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	s := &served{}
	s.Engine, err = engine.New(engine.Config{
		Version: "test", Guard: []string{self, "processtest-guard"}, GuardEnv: os.Environ(), Workspace: workspace, Shell: "/bin/sh", Python: python,
		MaxJobs: 100, MaxSessions: 10, MaxOutput: 1 << 20, MaxState: 1 << 20,
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.Engine.Close()
	dir, err := sockets.Open(place)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	l, err := dir.Listen("0123456789abcdef01234567")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer l.Close()
	go func() { // ends with the process
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := conn.Hear("test"); err == nil && conn.Welcome(sockets.Welcome{Version: "test", Workspace: workspace, PID: os.Getpid(), Since: time.Now()}) == nil {
				go s.connect(context.Background(), conn, jobs.Person) // ends with the connection
			}
		}
	}()
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// A remote is an engine in a process of its own. Commands that run as processes need one: an engine
// of the test's process would take them for orphans of its jobs.
type remote struct {
	*host
	t   *testing.T
	cmd *exec.Cmd
}

// remote starts an engine.
func (w *world) remote() *remote {
	t := w.t
	t.Helper()
	cmd := exec.Command(os.Args[0], engineArg, w.place, t.TempDir(), w.python)
	cmd.Env = append(os.Environ(), "GORACE=exitcode=66 atexit_sleep_ms=0")
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	cmd.Stderr = os.Stderr
	must.Do(t, cmd.Start())
	r := &remote{t: t, cmd: cmd}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the engine says %q, %v", line, err)
	}
	c := w.config(io.Discard, io.Discard)
	f := c.reach(t.Context())
	if len(f.engines) != 1 {
		t.Fatalf("there are %d engines: %v", len(f.engines), f.silent)
	}
	r.host = f.engines[0]
	t.Cleanup(f.close)
	return r
}

// patient returns the result of f, which is called again if a busy machine was too slow for it.
func patient[T any](t *testing.T, f func() (T, error)) (got T) {
	t.Helper()
	polltest.Until(t, "an answer", func() bool {
		var err error
		if got, err = f(); err != nil && !strings.Contains(err.Error(), "does not answer") {
			t.Fatal(err)
		}
		return err == nil
	})
	return got
}

// tool calls a tool.
func (r *remote) tool(name string, args map[string]any) client.Reply {
	r.t.Helper()
	return must.Get(r.call(r.t.Context(), time.Minute, name, args))(r.t)
}

// start runs a command line as a job and returns its id.
func (r *remote) start(line string) string {
	r.t.Helper()
	return r.tool("execute_command_async", map[string]any{"command": line, "wait_seconds": 0}).Header("Job ID")
}

// asks waits until a job asks for input.
func (r *remote) asks(id string) {
	r.t.Helper()
	polltest.Until(r.t, "the question of job "+id, func() bool { return r.doc(id).Question != nil })
}

// doc reads a job.
func (r *remote) doc(id string) *report.Document {
	r.t.Helper()
	return patient(r.t, func() (*report.Document, error) { return r.document(r.t.Context(), id) })
}

// shell starts a shell that a person can attach to.
func (r *remote) shell() string {
	r.t.Helper()
	id := r.start("PS1='$ ' PS2= exec sh -i")
	r.asks(id)
	return id
}

// size returns the size of a job's terminal, as ROWSxCOLUMNS.
func (r *remote) size(id string) string {
	r.t.Helper()
	j := job{r.doc(id), r.host}
	about := patient(r.t, func() (resource.Screen, error) { _, about, err := j.screen(r.t.Context()); return about, err })
	return fmt.Sprintf("%dx%d", about.Rows, about.Columns)
}
