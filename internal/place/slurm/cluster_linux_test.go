package slurm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/slurmtest"
)

// parts are the programs that the test binary plays if its first argument names one.
var parts = map[string]func(args []string) error{"part-engine": partEngine, "part-join": partJoin}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && parts[os.Args[1]] != nil {
		if err := parts[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// partEngine is what an engine is for Slurm: it listens on a Unix socket. A connection begins with a word. After
// "echo" each byte comes back, "facts" returns lines about the process, and "exit" ends it.
func partEngine(args []string) error {
	l, err := net.Listen("unix", args[0])
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() { // owned by nobody; ends with its connection or the process
			defer conn.Close()
			r := bufio.NewReader(conn)
			word, _ := r.ReadString('\n')
			switch word {
			case "echo\n":
				io.Copy(conn, r)
			case "facts\n":
				dir, _ := os.Getwd()
				fmt.Fprintf(conn, "pid=%d\ndir=%s\nargs=%q\n%s\n", os.Getpid(), dir, args[1:], strings.Join(os.Environ(), "\n"))
			case "exit\n":
				os.Exit(3)
			}
		}()
	}
}

// partJoin joins standard input and output to a socket, as dial does.
func partJoin(args []string) error {
	conn, err := net.Dial("unix", args[0])
	if err != nil {
		return err
	}
	go func() { // owned by nobody; ends with its input or the process
		io.Copy(conn, os.Stdin)
		conn.(*net.UnixConn).CloseWrite()
	}()
	_, err = io.Copy(os.Stdout, conn)
	return err
}

// A world is a cluster, and a Cluster of one server on it. Its commands and carriers have a secret in their
// environment, and its commands what could hide jobs or shift times.
type world struct {
	*Cluster
	slurm *slurmtest.Cluster
}

func newWorld(t *testing.T, conf string, options ...string) *world {
	s := slurmtest.Start(t, conf)
	return &world{must.Get(New(options, "K", func(ctx context.Context, argv []string, stdin string) (string, error) {
		return s.Command(ctx, append([]string{"SECRET=1", "TZ=JST-9", "SQUEUE_USERS=nobody", "SCANCEL_USER=nobody", "SLURM_TIME_FORMAT=relative"}, argv...), stdin)
	}))(t), s}
}

// state waits until Slurm says that a job is in a phase.
func (w *world) state(t *testing.T, id string, phase allocation.Phase) (s allocation.State) {
	t.Helper()
	polltest.Check(t, func() error {
		states, err := w.States(t.Context(), []string{id})
		if s = states[id]; err == nil && s.Phase != phase {
			err = fmt.Errorf("job %s is %+v, not %v", id, s, phase)
		}
		return err
	})
	return s
}

// program returns an Engine whose program is a file that is not there yet, in a directory of the test.
func (w *world) program(t *testing.T) (e allocation.Engine, file, socket string) {
	dir := must.Get(os.MkdirTemp(w.slurm.Dir, "place"))(t)
	file, socket = filepath.Join(dir, "program"), filepath.Join(dir, "socket")
	return allocation.Engine{Workspace: dir, Find: "echo " + carry.Quote(file), Args: []string{"part-engine", socket}, Idle: 10 * time.Minute}, file, socket
}

// carry runs a script of the shell in the allocation, and returns its output.
func (w *world) carry(t *testing.T, id, script string, stdin io.Reader) ([]byte, error) {
	argv := w.slurm.Argv(append([]string{"SECRET=1"}, append(w.Carrier(id), "/bin/sh", "-c", script)...)...)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &said
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said.Bytes())
	}
	return out.Bytes(), err
}

// join returns the script of a link to the engine.
func join(file, socket string) string {
	return "exec " + carry.Quote(file) + " part-join " + carry.Quote(socket)
}

// The first link brings the program. The batch script then is the engine, in its workspace, without anything of
// our environment. Bytes go both ways through srun, to one task of a job that has many. A cancelled job leaves
// nothing.
func TestEngineInAnAllocation(t *testing.T) {
	t.Parallel()                                   // it mostly waits for Slurm
	prolog := filepath.Join(t.TempDir(), "prolog") // steps get another temporary directory than the batch script
	must.Do(t, os.WriteFile(prolog, []byte("#!/bin/sh\necho export TMPDIR=/tmp/step-${SLURM_STEP_ID:+of}-$SLURM_JOB_ID\n"), 0o755))
	w := newWorld(t, "TaskProlog="+prolog, "--nodes=2", "--ntasks=8")
	e, file, socket := w.program(t)
	e.Workspace = filepath.Join(e.Workspace, "it's a \"new\" one")
	e.Setup = "export FROM_SETUP='a b'"
	e.Args = append(e.Args, "it's", "$HOME", "")
	id := must.Get(w.Allocate(t.Context(), "a, b", e))(t)
	s := w.state(t, id, allocation.Running)
	if s.Text != "Slurm job "+id+", node n1" || s.Node != "n1" || s.Deadline.Sub(s.Start) != 10*time.Minute {
		t.Errorf("state: %+v", s)
	}

	body := must.Get(os.Open(must.Get(os.Executable())(t)))(t)
	defer body.Close()
	quoted := carry.Quote(file)
	bring := fmt.Sprintf("/bin/cat >%[1]s.new && /bin/chmod 700 %[1]s.new && exec /bin/mv %[1]s.new %[1]s", quoted)
	must.Get(w.carry(t, id, bring, body))(t)
	polltest.Until(t, "the engine", func() bool { _, err := os.Stat(socket); return err == nil })

	facts := string(must.Get(w.carry(t, id, join(file, socket), strings.NewReader("facts\n")))(t))
	lines := strings.Split(facts, "\n")
	var pid int
	fmt.Sscanf(facts, "pid=%d\n", &pid)
	for _, want := range []string{
		"dir=" + e.Workspace, `args=["it's" "$HOME" ""]`, "FROM_SETUP=a b", "SLURM_JOB_ID=" + id, "SLURMD_NODENAME=n1",
		"SLURM_TASK_PID=" + strconv.Itoa(pid), // that of the batch script
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("the engine has no %s", want)
		}
	}
	env := string(must.Get(w.carry(t, id, "exec /usr/bin/env", nil))(t))
	temp := func(s string) string { _, s, _ = strings.Cut(s, "\nTMPDIR="); s, _, _ = strings.Cut(s, "\n"); return s }
	if temp(facts) != "/tmp/step-of-"+id || temp(facts) != temp("\n"+env) {
		t.Errorf("the temporary directory of the engine is %q, that of a carrier %q", temp(facts), temp("\n"+env))
	}
	if strings.Contains(facts, "\nSECRET=") || strings.Contains(env, "SECRET=") || strings.Contains(facts, "SLURM_EXPORT_ENV=") {
		t.Errorf("the environment of the engine:\n%s\nthat of a carrier:\n%s", facts, env)
	}

	data := make([]byte, 4<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	if got, err := w.carry(t, id, join(file, socket), io.MultiReader(strings.NewReader("echo\n"), bytes.NewReader(data))); err != nil || !bytes.Equal(got, data) {
		t.Errorf("echo of %d bytes: got %d, %v", len(data), len(got), err)
	}

	// A carrier waits for what never comes when the job is cancelled.
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() { // owned by this test; ends with the job
		_, err := w.carry(t, id, join(file, socket), io.MultiReader(strings.NewReader("echo\n"), reader))
		done <- err
	}()
	polltest.Until(t, "the carrier", func() bool {
		return strings.Count(w.slurm.Must(t, "squeue", "--steps", "--noheader", "--jobs="+id), "\n") > 0
	})
	must.Do(t, w.Release(t.Context(), id, "a, b"))
	if s := w.state(t, id, allocation.Ended); s.End != "Slurm: CANCELLED" {
		t.Errorf("after scancel: %+v", s)
	}
	writer.Close()
	<-done
	polltest.Check(t, func() error {
		left, err := w.slurm.Processes()
		if len(left) > 0 {
			return fmt.Errorf("scancel leaves %v", left)
		}
		return err
	})
}

// What Slurm says about jobs that wait, fail, end and are lost, and whose they are.
func TestCluster(t *testing.T) {
	t.Parallel() // it mostly waits for Slurm
	w := newWorld(t, "")
	e, file, socket := w.program(t)
	body := must.Get(os.ReadFile(must.Get(os.Executable())(t)))(t)
	must.Do(t, os.WriteFile(file, body, 0o700))
	with := func(options ...string) *Cluster { return must.Get(New(options, "K", w.run))(t) }

	t.Run("an unknown partition", func(t *testing.T) {
		_, err := with("--partition=nope").Allocate(t.Context(), "x", e)
		if err == nil || err.Error() != "sbatch: invalid partition specified: nope; Batch job submission failed: Invalid partition name specified" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a limit over the partition's", func(t *testing.T) {
		id := must.Get(with("--time=500").Allocate(t.Context(), "x", e))(t)
		polltest.Until(t, "the reason", func() bool {
			return strings.HasSuffix(w.state(t, id, allocation.Pending).Text, ", PartitionTimeLimit: its time limit is over the partition's, so it pends for ever; cancel it and ask for less time")
		})
		must.Do(t, w.Release(t.Context(), id, "x"))
		if s := w.state(t, id, allocation.Ended); s.End != "Slurm: CANCELLED" {
			t.Errorf("a pending job that was cancelled: %+v", s)
		}
	})
	t.Run("a start that is expected", func(t *testing.T) {
		c := with("--begin=now+7200")
		ids := []string{must.Get(c.Allocate(t.Context(), "x", e))(t), must.Get(c.Allocate(t.Context(), "x", e))(t)}
		for _, id := range ids {
			polltest.Check(t, func() error {
				s := w.state(t, id, allocation.Pending)
				now := time.Now()
				if want := "Slurm job " + id + ", BeginTime, expected start " + clock(s.Start, now); s.Text != want {
					return fmt.Errorf("got %q, want %q", s.Text, want)
				}
				if in := s.Start.Sub(now); in < time.Hour || in > 3*time.Hour {
					return fmt.Errorf("it is expected in %v", in)
				}
				return nil
			})
		}
		must.Do(t, w.Release(t.Context(), "", "x")) // as after a lost answer of sbatch
		for _, id := range ids {
			w.state(t, id, allocation.Ended)
		}
	})
	t.Run("a job of another name", func(t *testing.T) {
		theirs := w.slurm.Must(t, "sbatch", "--parsable", "--output=/dev/null", "--job-name=async-repl-OTHER-x", "--wrap", "exec sleep 600")
		must.Do(t, w.Release(t.Context(), theirs, "x"))
		must.Do(t, w.Release(t.Context(), "", "x"))
		states := must.Get(w.States(t.Context(), []string{theirs, "4000"}))(t)
		if states[theirs] != forgotten(theirs) || states["4000"] != forgotten("4000") {
			t.Errorf("states: %+v", states)
		}
		if states := must.Get(w.States(t.Context(), []string{"4000"}))(t); states["4000"] != forgotten("4000") {
			t.Errorf("state of an unknown job: %+v", states)
		}
		must.Do(t, w.Release(t.Context(), "4000", "x"))
		if got := w.slurm.Must(t, "squeue", "--noheader", "--format=%T", "--jobs="+theirs); got != "RUNNING" && got != "PENDING" {
			t.Errorf("their job is %s", got)
		}
	})
	t.Run("ends", func(t *testing.T) {
		idle := e
		idle.Find, idle.Idle = "true", time.Second
		unused := must.Get(w.Allocate(t.Context(), "unused", idle))(t)
		exits := must.Get(with("--nodelist=n2").Allocate(t.Context(), "exits", e))(t)
		w.state(t, exits, allocation.Running)
		polltest.Until(t, "the engine", func() bool { _, err := os.Stat(socket); return err == nil })
		w.carry(t, exits, join(file, socket), strings.NewReader("exit\n")) // srun can end with its job
		if s := w.state(t, exits, allocation.Ended); s.End != "Slurm: FAILED, NonZeroExitCode" {
			t.Errorf("an engine that fails: %+v", s)
		}
		if s := w.state(t, unused, allocation.Ended); s.End != "Slurm: COMPLETED" {
			t.Errorf("an allocation that nobody came to: %+v", s)
		}
	})
}

// A node that is lost ends its job and no other, and says so.
func TestLostNode(t *testing.T) {
	t.Parallel() // it mostly waits for Slurm
	w := newWorld(t, "")
	e, _, _ := w.program(t)
	on := func(node string) string {
		id := must.Get(must.Get(New([]string{"--nodelist=" + node}, "K", w.run))(t).Allocate(t.Context(), node, e))(t)
		w.state(t, id, allocation.Running)
		return id
	}
	lost, stays := on(slurmtest.Node2), on(slurmtest.Node1)
	w.slurm.Lose(t, slurmtest.Node2)
	w.slurm.Must(t, "scontrol", "update", "nodename=n2", "state=down", "reason=test") // it would find out by itself, later
	if s := w.state(t, lost, allocation.Ended); s.End != "node n2 lost: Slurm NODE_FAIL" || s.Node != "n2" {
		t.Errorf("the job of the lost node: %+v", s)
	}
	w.state(t, stays, allocation.Running)
}

// Without slurmctld no method says anything about a job, and none takes longer than its context. When it is back,
// so are the jobs.
func TestControllerIsDown(t *testing.T) {
	t.Parallel() // it mostly waits for Slurm
	w := newWorld(t, "")
	e, _, _ := w.program(t)
	id := must.Get(w.Allocate(t.Context(), "x", e))(t)
	w.state(t, id, allocation.Running)
	w.slurm.Kill(t, slurmtest.Controller)
	for name, f := range map[string]func(context.Context) error{
		"Allocate": func(ctx context.Context) error { _, err := w.Allocate(ctx, "y", e); return err },
		"States":   func(ctx context.Context) error { _, err := w.States(ctx, []string{id}); return err },
		"Release":  func(ctx context.Context) error { return w.Release(ctx, id, "x") },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := f(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	if _, err := w.States(t.Context(), []string{id}); err == nil || !strings.Contains(err.Error(), "Unable to contact slurm controller") {
		t.Errorf("States, as long as it takes: %v", err)
	}
	w.slurm.Run(t, slurmtest.Controller)
	w.state(t, id, allocation.Running)
	must.Do(t, w.Release(t.Context(), id, "x"))
	w.state(t, id, allocation.Ended)
}
