package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/internal/test/tiedtest"
)

// A program is a row of TestPrograms: a real program that waits for input, or one that does not.
type program struct {
	name    string
	needs   string // what must be installed: programs, and keys of programChecks
	command string
	asks    []question // one after the other; after the last answer the program ends. None: it never waits
	ready   string     // what it prints before it does what the row is about; empty: nothing
	late    bool       // it is watched from then on, because it waits before
	accepts string     // how Accepts input begins, of a program that does not wait; empty: it takes none
	stopped string     // how Stopped begins
	ends    string     // its status after the last answer; empty: completed
	pipes   bool       // it has pipes and no terminal
	by      user       // for whom the row holds
}

// A question is one wait for input, and the answer to it.
type question struct {
	kind   string
	prompt string // "…" stands for what differs between versions
	answer []any  // arguments of send_command_input; nil: none, the program is cancelled
}

// perhaps is what a program accepts that takes input in some versions only.
const perhaps = "perhaps"

// A user is one for whom a row holds. The zero user is any.
type user string

const (
	root     user = "root"
	ordinary user = "an ordinary user"
)

// ask is a question that is answered by text, or by nothing if the text is empty.
func ask(kind, prompt, text string) question {
	if text == "" {
		return question{kind, prompt, nil}
	}
	return question{kind, prompt, []any{"text", text}}
}

// press is a question that is answered by keys.
func press(kind, prompt string, keys ...string) question {
	return question{kind, prompt, []any{"keys", keys}}
}

// TestPrograms: real programs that wait for input are shown to wait, with kind and prompt, and
// those that do something else never are.
func TestPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a hundred programs, and watches some for several seconds")
	}
	overStdio(t, "only the server's own user may connect")
	if racetest.Enabled {
		t.Skip("the programs are not instrumented, and what watches them is tested where it is defined")
	}
	t.Parallel()
	t.Run("idle", checkUsers)
	t.Run("busy", func(t *testing.T) {
		for range runtime.NumCPU() {
			busyLoop(t)
		}
		checkUsers(t)
	})
}

// busyLoop keeps a processor busy until the end of the test.
func busyLoop(t *testing.T) {
	loop := exec.Command("sh", "-c", "while :; do :; done")
	must.Do(t, tiedtest.Start(loop, syscall.SIGKILL))
	t.Cleanup(func() { loop.Process.Kill(); loop.Wait() })
}

// checkUsers runs all programs for the users that a test can become, at the same time.
func checkUsers(t *testing.T) {
	users := []user{ordinary}
	if os.Geteuid() == 0 {
		users = []user{root, ordinary}
	}
	for _, by := range users {
		t.Run(string(by), func(t *testing.T) {
			t.Parallel()
			checkPrograms(t, by)
		})
	}
}

// checkPrograms runs all programs that are installed as jobs of one server.
func checkPrograms(t *testing.T, by user) {
	s := startServerOf(t, by)
	missing := s.missing()
	lacks := func(name string) bool { return slices.Contains(missing, name) }
	if !lacks("agent") { // it belongs to a job of its own, and so is outside the job of its row
		holds(t, s.do("execute_command_async", "command", "sh agent.sh", "wait_seconds", patience.Seconds()/2), "Status", "completed")
	}
	c := startClock(s)
	defer c.stop()
	places := make(chan struct{}, 8) // for programs that start
	var group sync.WaitGroup
	var waiting, working int
	for i, p := range programs {
		if p.by != "" && p.by != by || slices.ContainsFunc(strings.Fields(p.needs), lacks) {
			continue
		}
		if p.asks == nil {
			working++
		} else {
			waiting++
		}
		places <- struct{}{}
		group.Go(func() {
			started := sync.OnceFunc(func() { <-places })
			defer started()
			if err := s.check(i, p, c, started); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		})
	}
	group.Wait()
	t.Logf("%d programs that wait, and %d that do not; not installed: %s", waiting, working, cmp.Or(strings.Join(missing, " "), "none"))
}

// check runs one program in a directory of its own and returns what is wrong. It calls started when
// the program has come to what its row is about.
func (s *started) check(i int, p program, c *clock, started func()) error {
	begin := time.Now()
	r, err := s.try("execute_command_async", "command", p.command, "cwd", fmt.Sprint("row", i), "tty", !p.pipes, "wait_seconds", 0)
	if err != nil {
		return err
	}
	id := r.Header("Job ID")
	if p.asks == nil {
		err = s.checkWorks(id, p, c, started)
	} else {
		err = s.checkWaits(id, p, begin)
	}
	_, ended := s.try("cancel_job", "job_id", id, "force", true)
	return errors.Join(err, ended)
}

// checkWaits answers the questions of a program, if they are those of its row.
func (s *started) checkWaits(id string, p program, begin time.Time) error {
	for i, q := range p.asks {
		r, err := s.settle(id)
		if err != nil {
			return err
		}
		kind, by, _ := strings.Cut(r.Header("Waiting"), ", ")
		if i == 0 {
			s.t.Logf("| %s | %s | %q | %d | %s", p.name, kind, r.Header("Prompt"), time.Since(begin).Milliseconds(), by)
		}
		if kind != q.kind || !like(r.Header("Prompt"), q.prompt) {
			return fmt.Errorf("question %d is %q of kind %q, want %q of kind %q:\n%s", i, r.Header("Prompt"), kind, q.prompt, q.kind, r)
		}
		if q.answer == nil {
			return nil
		}
		if err := s.answer(id, q); err != nil {
			return err
		}
	}
	r, err := s.settle(id)
	if want := cmp.Or(p.ends, "completed"); err == nil && r.Header("Status") != want {
		err = fmt.Errorf("after the last answer, want %s:\n%s", want, r)
	}
	return err
}

// answer answers a question.
func (s *started) answer(id string, q question) error {
	_, err := s.try("send_command_input", append([]any{"job_id", id, "wait_seconds", 0}, q.answer...)...)
	return err
}

// like reports whether a prompt is what a row says.
func like(prompt, want string) bool {
	before, after, varies := strings.Cut(want, "…")
	if !varies {
		return prompt == want
	}
	return len(prompt) >= len(before)+len(after) && strings.HasPrefix(prompt, before) && strings.HasSuffix(prompt, after)
}

// settle waits until a program waits for input or ends.
func (s *started) settle(id string) (r client.Reply, err error) {
	for range 3 { // a wait ends early if the program would take input but waits for other things, too
		r, err = s.try("check_job_status", "job_id", id, "wait_seconds", patience.Seconds()/2, "cursor", 0)
		if err != nil || !goesOn(r) {
			break
		}
	}
	return r, err
}

// goesOn reports whether a job has not ended, and does not wait for input.
func goesOn(r client.Reply) bool {
	return r.Header("Status") == "running" || r.Header("Status") == "queued"
}

// checkWorks watches a program that does not wait from its start on, until some that do, and that
// were started after it got ready, have been seen to wait.
func (s *started) checkWorks(id string, p program, c *clock, started func()) error {
	watch := make(chan error, 1)
	begin := func() { watch <- s.watch(id) } // ends with the job
	if !p.late {
		go begin()
	}
	if _, err := s.ready(id, p); err != nil {
		return err
	}
	if p.late {
		go begin()
	}
	started()
	for range 4 { // the first one can have been started before
		if err := c.wait(); err != nil {
			return err
		}
	}
	r, err := s.ready(id, p) // still
	if err != nil {
		return err
	}
	s.t.Logf("| %s | – | | | %s | %s | %s", p.name, r.Header("Accepts input"), r.Header("Activity"), r.Header("Stopped"))
	_, err = s.try("cancel_job", "job_id", id, "force", true)
	return errors.Join(err, <-watch)
}

// ready waits until a program that does not wait does what its row is about.
func (s *started) ready(id string, p program) (r client.Reply, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if r, err = s.try("check_job_status", "job_id", id, "wait_seconds", 0.05, "cursor", 0); err != nil {
			return r, err
		}
		if r.Header("Status") == "running" && strings.Contains(string(r), p.ready) && p.shownIn(r) {
			return r, nil
		}
	}
	return r, fmt.Errorf("it does not do what its row says:\n%s", r)
}

// shownIn reports whether a reply shows of a program that does not wait what its row says.
func (p program) shownIn(r client.Reply) bool {
	takes, stopped := r.Header("Accepts input"), r.Header("Stopped")
	if p.accepts == perhaps {
		return true
	}
	return (takes == "") == (p.accepts == "") && strings.HasPrefix(takes, p.accepts) &&
		(stopped == "") == (p.stopped == "") && strings.HasPrefix(stopped, p.stopped)
}

// watch waits for the end of a job and returns an error if it waits for input before.
func (s *started) watch(id string) error {
	for {
		r, err := s.try("check_job_status", "job_id", id, "wait_seconds", patience.Seconds()/2)
		switch {
		case err != nil:
			return err
		case r.Header("Status") == "waiting_input":
			return fmt.Errorf("it was shown to wait:\n%s", r)
		case !goesOn(r):
			return nil
		}
	}
}

// try is do for any goroutine.
func (s *started) try(tool string, args ...any) (client.Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.Call(ctx, tool, pairs(args))
}
