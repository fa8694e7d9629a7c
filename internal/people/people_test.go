//go:build unix

package people

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A command line that can't be used ends with status 2 and one sentence that says what to do.
func TestMisuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for line, want := range map[string]string{
		"sevre":                   `unknown command "sevre": did you mean serve? see async-repl help`,
		"attack":                  `unknown command "attack": did you mean attach? see async-repl help`,
		"frobnicate":              `unknown command "frobnicate": see async-repl help`,
		"ps x":                    `ps: unknown command "x" for "async-repl ps": see async-repl ps --help`,
		"ps --jsno":               "ps: unknown flag: --jsno: see async-repl ps --help",
		"logs":                    "logs: accepts 1 arg(s), received 0: see async-repl logs --help",
		"logs --view pdf A":       "logs: --view is text, raw or screen",
		"logs -f --view screen A": "logs: --view screen shows one moment: leave -f out",
		"page x":                  `page: unknown command "x" for "async-repl page": see async-repl page --help`,
		"page -lisen 1":           "page: unknown flag: --lisen: see async-repl page --help",
	} {
		t.Run(line, func(t *testing.T) {
			w.run(strings.Fields(line)...).expect(t, "", "async-repl: "+want+"\n", 2)
		})
	}
	// Of wait, statuses below 123 belong to jobs.
	for line, want := range map[string]string{
		"wait":                  "wait: requires at least 1 arg(s), only received 0: see async-repl wait --help",
		"wait --timeout soon A": "wait: --timeout is a number of seconds, or a time like 90s or 2h",
		"wait --timeout -1 A":   "wait: --timeout is a number of seconds, or a time like 90s or 2h",
	} {
		t.Run(line, func(t *testing.T) {
			w.run(strings.Fields(line)...).expect(t, "", "async-repl: "+want+"\n", 125)
		})
	}
	w.run("ps", "--help").expect(t, "~Usage:\n  async-repl ps ARGUMENTS\n", "", 0)
	if _, err := os.Lstat(w.place); err == nil {
		t.Error("a command has made the directory of the sockets")
	}
}

// An id of no job is refused in words that depend on what is known.
func TestUnknownJobs(t *testing.T) {
	w, s := serving(t)
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for given, want := range map[string]string{
		id:           "there is no job " + id + ": async-repl ps --all lists them",
		"01ARZ3N":    `"01ARZ3N" is no job: give its id, or the first 8 characters or more of it`,
		"../../x/y/": `"../../x/y/" is no job: give its id, or the first 8 characters or more of it`,
	} {
		w.run("logs", given).expect(t, "", "async-repl: "+want+"\n", 1)
		w.run("wait", given).expect(t, "", "async-repl: "+want+"\n", 125)
	}
	a, b := s.start("true"), s.start("true")
	jobstest.End(t, a)
	jobstest.End(t, b)
	common := 0
	for a.ID()[common] == b.ID()[common] {
		common++
	}
	if prefix := a.ID()[:common]; common >= leastID {
		w.run("logs", prefix).expect(t, "", "~begin with "+prefix, 1)
	}
	w.run("logs", strings.ToLower(a.ID()[:common+1])).expect(t, "", "", 0)
}

// If an id can be several jobs of one engine, the only such job of another engine is not meant.
func TestShortenedIDOfSeveralEngines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, other := w.serve(), w.serve()
	for {
		a, b, c := s.start("true"), s.start("true"), other.start("true")
		prefix := a.ID()[:leastID]
		if strings.HasPrefix(b.ID(), prefix) && strings.HasPrefix(c.ID(), prefix) { // they are of one second
			w.run("cancel", prefix).expect(t, "", "~begin with "+prefix, 1)
			return
		}
	}
}

// The output of a job is printed as it came: what came over stderr to standard error.
func TestLogs(t *testing.T) {
	w, s := serving(t)
	both := must.Get(s.agent.Call(t.Context(), "execute_command_async", map[string]any{"command": "echo out; echo err >&2", "tty": false}))(t)
	w.run("logs", both.Header("Job ID")).expect(t, "out\n", "err\n", 0)
	long := s.ended("seq 20000; printf '\\033[1mbold\\033[0m end'")
	var lines strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&lines, "%d\n", i+1)
	}
	w.run("logs", long.ID()).expect(t, lines.String()+"bold end", "", 0)
	w.run("logs", "--view", "raw", long.ID()).expect(t, strings.ReplaceAll(lines.String(), "\n", "\r\n")+"\x1b[1mbold\x1b[0m end", "", 0)
	w.run("logs", "--view", "screen", long.ID()).expect(t, "~19999\n20000\nbold end\n", "", 0)
}

// Output is followed to the end of the job.
func TestLogsAreFollowed(t *testing.T) {
	w, s := serving(t)
	j := s.asking("echo begun; read x; echo ended")
	read, done := w.begin(t.Context(), "logs", "-f", j.ID())
	first := make([]byte, 100)
	n := must.Get(read.Read(first))(t)
	jobstest.Send(t, j, jobs.Input{Text: "\n"})
	rest := must.Get(io.ReadAll(read))(t)
	if got := string(first[:n]) + string(rest); got != "begun\n\nended\n" || <-done != 0 {
		t.Errorf("got %q", got)
	}
}

// times are the parts of a table that differ between runs.
var times = regexp.MustCompile(`\b(\d+(\.\d+)?(ms|s|m|h))+\b`)

// The table shows engines, their jobs and sessions, questions, and when an unattended engine ends.
func TestPsShowsWhatGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run("ps").expect(t, "No engine has a job.\n", "", 0)
	s := w.serve()
	asks := s.asking("printf 'Really? '; read x")
	ended := s.ended("exit 3")
	lab := must.Get(s.agent.Call(t.Context(), "execute_command_async", map[string]any{"command": "cd /; sleep 100", "shell_session": "lab", "wait_seconds": 0}))(t)
	polltest.Until(t, "the job runs in its session", func() bool {
		return must.Get(s.Jobs().Get(lab.Header("Job ID")))(t).Record().Status == jobs.Running
	})
	table := func(args ...string) string {
		t.Helper()
		r := w.run(append([]string{"ps"}, args...)...)
		if r.code != 0 || r.err != "" {
			t.Fatalf("%+v", r)
		}
		text := times.ReplaceAllString(r.out, "TIME")
		for name, id := range map[string]string{"ASKS": asks.ID(), "ENDED": ended.ID()} {
			text = regexp.MustCompile(id[:idShown]+`\S*`).ReplaceAllString(text, name)
		}
		text = regexp.MustCompile(`\b01[0-9A-Z]{10,24}`).ReplaceAllString(text, "OTHER")
		text = regexp.MustCompile(` +`).ReplaceAllString(text, " ")
		return strings.ReplaceAll(strings.ReplaceAll(text, fmt.Sprint(os.Getpid()), "PID"), s.Workspace(), "WORKSPACE")
	}
	head, session := "ENGINE PID WORKSPACE up TIME, with its client\n", " shell session lab, in WORKSPACE, busy\n"
	unended := " OTHER running shell lab TIME cd /; sleep 100\n"
	waits := ` ASKS waiting_input shell TIME printf 'Really? '; read x (asks "Really? ")` + "\n"
	if got, want := table(), head+unended+waits+session; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got, want := table("--all"), head+unended+" ENDED failed (exit 3) shell TIME exit 3\n"+waits+session; got != want {
		t.Errorf("all:\n%s\nwant:\n%s", got, want)
	}
	s.welcomes(func(w *sockets.Welcome) { w.Attended, w.Ends = false, time.Now().Add(90*time.Second) })
	if got, want := table(), strings.Replace(head, "with its client", "no client; ends in TIME", 1); !strings.HasPrefix(got, want) {
		t.Errorf("unattended:\n%s\nwant:\n%s", got, want)
	}
	s.welcomes(func(w *sockets.Welcome) { w.Ends, w.Kept = time.Time{}, 2 })
	if got, want := table(), strings.Replace(head, "with its client", "no client; it stays for what is kept (2)", 1); !strings.HasPrefix(got, want) {
		t.Errorf("kept:\n%s\nwant:\n%s", got, want)
	}
	s.welcomes(func(w *sockets.Welcome) { w.Trims = time.Now().Add(90 * time.Second) })
	if got, want := table(), strings.Replace(head, "with its client", "no client; it stays for what is kept (2), what else there is ends in TIME", 1); !strings.HasPrefix(got, want) {
		t.Errorf("kept beside others:\n%s\nwant:\n%s", got, want)
	}
	must.Get(s.agent.Call(t.Context(), "execute_command_async", map[string]any{"command": "sleep 101", "keep": true, "wait_seconds": 0}))(t)
	if got := table(); !strings.Contains(got, " OTHER running, kept shell TIME sleep 101\n") {
		t.Errorf("a kept job is shown so:\n%s", got)
	}
	asJSON := w.run("ps", "--json")
	for _, part := range []string{`"pid": `, `"workspace": "` + s.Workspace(), `"kept": 2`, `"id": "` + asks.ID(), `"prompt": "Really? "`, `"status": "waiting_input"`} {
		asJSON.expect(t, "~"+part, "", 0)
	}
}

// A job whose status changes while ps asks for it is shown once.
func TestPsShowsNoJobTwice(t *testing.T) {
	w, s := serving(t)
	j := s.asking("while read x; do for i in 1 2 3 4 5 6; do head -c 100000 /dev/zero >/dev/null; done; done")
	ctx, stop := context.WithCancel(t.Context())
	var typing sync.WaitGroup
	typing.Go(func() { // joined below; ends when the test stops it
		for ctx.Err() == nil {
			s.agent.Call(ctx, "send_command_input", map[string]any{"job_id": j.ID(), "text": "\n", "wait_seconds": 0.05})
		}
	})
	defer typing.Wait()
	defer stop()
	for range 200 {
		if got := w.run("ps"); strings.Count(got.out, j.ID()[:idShown]) > 1 || got.code != 0 {
			t.Fatalf("exit %d:\n%s", got.code, got.out)
		}
	}
}

// What is watched is shown again when it changes.
func TestPsWatches(t *testing.T) {
	w, s := serving(t)
	j := s.asking("read x")
	ctx, stop := context.WithCancel(t.Context())
	read, done := w.begin(ctx, "ps", "-w")
	b := make([]byte, 10_000)
	if got := string(b[:must.Get(read.Read(b))(t)]); !strings.Contains(got, j.ID()[:idShown]+"  waiting_input") {
		t.Errorf("got %q", got)
	}
	jobstest.Send(t, j, jobs.Input{Text: "\n"})
	jobstest.End(t, j)
	for got := ""; !strings.HasPrefix(got, "ENGINE") || strings.Contains(got, j.ID()[:idShown]); { // it can be shown while it runs
		got = string(b[:must.Get(read.Read(b))(t)])
	}
	stop()
	go io.Copy(io.Discard, read)
	if code := <-done; code != 0 {
		t.Errorf("exit %d", code)
	}
}

// Wait exits as its job has.
func TestWaitExitsAsTheJob(t *testing.T) {
	w, s := serving(t)
	for _, tt := range []struct {
		line, out string
		code      int
	}{
		{"sleep 0.1", "completed", 0},
		{"exit 7", "failed (exit 7)", 7},
		{"kill -9 $$", "failed (killed by SIGKILL)", 137},
		{"printf 'Name? '; read x", "waits for input: Name?", 123},
		{"/nonexistent/program", "failed (exit 127)", 127},
	} {
		j := s.start(tt.line)
		got := w.run("wait", j.ID())
		if !strings.HasPrefix(got.out, j.ID()+" "+tt.out) || got.err != "" || got.code != tt.code {
			t.Errorf("%s: %+v", tt.line, got)
		}
	}
}

// Of several jobs, all must have completed.
func TestWaitForSeveral(t *testing.T) {
	w, s := serving(t)
	good, bad, long := s.start("true"), s.start("exit 3"), s.start("sleep 100")
	line := func(j *jobs.Job) string { return j.ID() + " " + string(jobstest.End(t, j).Receipt.Text()) + "\n" }
	w.run("wait", good.ID(), bad.ID()).expect(t, line(good)+line(bad), "", 1)
	w.run("wait", good.ID(), good.ID()).expect(t, line(good)+line(good), "", 0)
	w.run("wait", "--any", long.ID(), bad.ID()).expect(t, line(bad), "", 3)
	for range 20 { // the first given counts
		w.run("wait", "--any", long.ID(), good.ID(), bad.ID()).expect(t, line(good), "", 0)
		w.run("wait", "--any", bad.ID(), good.ID()).expect(t, line(bad), "", 3)
	}
	w.run("wait", "--timeout", "0.2", long.ID(), good.ID()).expect(t, line(good), "async-repl: the time is over: 1 of 2 jobs have ended\n", 124)
	asks := s.start("printf 'PIN: '; read x")
	w.run("wait", long.ID(), asks.ID()).expect(t, asks.ID()+" waits for input: PIN:\n", "", 123)
	key := s.start("stty -icanon; dd bs=1 count=1")
	w.run("wait", key.ID()).expect(t, key.ID()+" waits for a key\n", "", 123)
	w.run("ps").expect(t, "~dd bs=1 count=1 (waits for a key)\n", "", 0)
	w.run("wait", long.ID(), "01ARZ3NDEKTSV4RRFFQ69G5FAV").expect(t, "", "~there is no job", 125)
}

// If the engine ends during a wait, the records say what has become of the job, or nothing can be
// said.
func TestWaitOutlivesItsEngine(t *testing.T) {
	w, s := serving(t)
	j := s.asking("read x; exit 5")
	jobstest.Send(t, j, jobs.Input{Text: "\n"})
	jobstest.End(t, j)
	w.past = s.records
	s.stop()
	w.run("wait", j.ID()).expect(t, j.ID()+" failed (exit 5)\n", "", 5)
	w.run("logs", j.ID()[:25]).expect(t, "\n", "", 0)
	w.run("ps", "--all").expect(t, "~EARLIER RUNS\n  "+j.ID()[:idShown], "", 0)
}

// records connects to the engine as if it had only records.
func (s *served) records(context.Context) (io.ReadWriteCloser, error) {
	conn, theirs := net.Pipe()
	go s.connect(s.t.Context(), theirs, jobs.Person) // ends with the connection
	return conn, nil
}

// Sockets that are silent, speak rubbish, are dead or of another version hold a command up for two
// seconds at most. Others are asked all the same.
func TestStrangeSocketsHoldNothingUp(t *testing.T) {
	w, s := serving(t)
	j := s.start("sleep 100")
	n := 0
	strange := func(answer string) {
		n++
		l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(w.place, fmt.Sprintf("0123456789abcdef0123456%d-%d", n, os.Getpid())), Net: "unix"}))(t)
		go func() { // ends with the listener
			for {
				conn, err := l.AcceptUnix()
				if err != nil {
					return
				}
				t.Cleanup(func() { conn.Close() })
				io.WriteString(conn, answer)
			}
		}()
		t.Cleanup(func() { l.Close() })
	}
	strange("")
	strange("HTTP/1.1 400 Bad Request\r\n")
	strange("protocol 99 v9.0.0\n")
	strange("refused: it is closed today\n")
	strange(`welcome {"PID":1}` + "\n")
	strange(`welcome {"PID":1}` + "\nrubbish\n")
	dead := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(w.place, "0123456789abcdef01234569-99"), Net: "unix"}))(t)
	dead.SetUnlinkOnClose(false)
	dead.Close()
	must.Do(t, unix.Mkfifo(filepath.Join(w.place, "a-fifo"), 0o600))
	begin := time.Now()
	got := w.run("ps")
	if d := time.Since(begin); d > 2*sockets.HelloTime { // two are silent: asked one after the other, they take that
		t.Errorf("it has taken %v", d)
	}
	if c := strings.Count(got.out, "\nNOT ASKED: process "); got.code != 0 || c != 6 || !strings.Contains(got.out, j.ID()[:idShown]) {
		t.Errorf("%d were not asked:\n%s", c, got.out)
	}
	for _, why := range []string{"does not answer within 2s", "version v9.0.0", "it is closed today"} {
		got.expect(t, "~"+why, "", 0)
	}
	w.run("logs", "01ARZ3NDEKTSV4RRFFQ69G5FAV").expect(t, "", "~no job 01ARZ3NDEKTSV4RRFFQ69G5FAV was found, and an engine that may have it can't be asked: ", 1)
	if _, err := os.Lstat(dead.Addr().String()); err == nil {
		t.Error("the name of the dead engine is still there")
	}
}

// A job of an earlier run is shown once and as such, even if an engine has its record, too, and has
// started before that run.
func TestPsShowsEarlierRunsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.workspace, w.state = t.TempDir(), t.TempDir()
	s, other := w.serve(), w.engine()
	j := other.ended("exit 3")
	other.Engine.Close()
	w.past = s.records
	got := w.run("ps", "--all")
	if before, after, found := strings.Cut(got.out, "EARLIER RUNS\n  "+j.ID()[:idShown]); !found || strings.Contains(before+after, j.ID()[:idShown]) {
		t.Errorf("got:\n%s", got.out)
	}
	w.run("wait", j.ID()).expect(t, j.ID()+" failed (exit 3)\n", "", 3)
}

// A slowConn holds each read back until the time has come, as a slow disk does.
type slowConn struct {
	io.ReadWriteCloser
	comes <-chan struct{}
}

func (c slowConn) Read(b []byte) (int, error) {
	<-c.comes
	return c.ReadWriteCloser.Read(b)
}

// Records that take longer to read than an engine may take to answer are shown.
func TestPsAwaitsSlowRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.engine()
	j := s.ended("exit 3")
	w.past = func(ctx context.Context) (io.ReadWriteCloser, error) {
		conn, err := s.records(ctx)
		late, cancel := context.WithTimeout(t.Context(), sockets.HelloTime+time.Second)
		t.Cleanup(cancel)
		return slowConn{conn, late.Done()}, err
	}
	w.run("ps", "--all").expect(t, "~EARLIER RUNS\n  "+j.ID()[:idShown], "", 0)
}

// A server over HTTP has an engine for each tenant in one process. Each of them is shown.
func TestPsShowsEachEngineOfAProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	w.serveAs("fedcba987654321001234567")
	if got := w.run("ps"); strings.Count(got.out, "ENGINE") != 2 {
		t.Errorf("got:\n%s", got.out)
	}
}

// An engine is shown once, if several paths lead to the directory of its socket.
func TestPsShowsAnEngineOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	var out strings.Builder
	c := w.config(&out, io.Discard)
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(filepath.Dir(w.place), link))
	c.Places = append(c.Places, filepath.Join(link, filepath.Base(w.place)))
	if code := Run(t.Context(), []string{"ps"}, c); code != 0 || strings.Count(out.String(), "ENGINE") != 1 || strings.Contains(out.String(), "NOT ASKED") {
		t.Errorf("exit %d:\n%s", code, out.String())
	}
}

// Ps shows where a job at a place is, and below it what it waits for there. What a place says reaches no terminal as
// it is.
func TestPsOfAJobAtAPlace(t *testing.T) {
	w, s := serving(t)
	stop := make(chan struct{})
	defer close(stop)
	j := jobstest.Start(t, s.Jobs(), jobs.Spec{Kind: jobs.Shell, Title: "train", Place: "cluster"}, waitsThere(stop))
	text := `(?m)^  ` + j.ID()[:14] + `  queued  shell at cluster \(Slurm job 812\) +train\n      Queued: Slurm job 812, Priority\\x1b31m, expected start 14:20\n      Input: not delivered$`
	polltest.Check(t, func() error { // until it has a link
		if got := w.run("ps"); !regexp.MustCompile(text).MatchString(got.out) || strings.Contains(got.out, "\x1b") || got.code != 0 {
			return fmt.Errorf("exit %d, %s%s", got.code, got.out, got.err)
		}
		return nil
	})
	w.run("ps", "--json").expect(t, `~"where": "Slurm job 812"`, "", 0)
}

// A waitsThere is a job in the queue of a place.
type waitsThere chan struct{}

func (w waitsThere) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	p.SetLink(func() jobs.Link {
		return jobs.Link{Where: "Slurm job 812", Queued: "Slurm job 812, Priority\x1b31m, expected start 14:20", Input: "not delivered"}
	})
	<-w
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun}}
}
