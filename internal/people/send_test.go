//go:build unix

package people

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/pythontest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A person answers, and the next reply to the agent says so once, with the time and not what was
// typed.
func TestSendAnswers(t *testing.T) {
	w, s := serving(t)
	j := s.asking(`printf 'Name? '; read x; echo "${#x} characters"; read y; echo "then ${#y}"; cat -v`)
	w.run("send", j.ID()[:20], "hunter2").expect(t, "delivered\n", "", 0)
	jobstest.Prints(t, j, "7 characters")
	want := "by a person, " + j.Record().Answered.Local().Format(time.TimeOnly)
	check := func() string {
		t.Helper()
		r := must.Get(s.agent.Call(t.Context(), "check_job_status", map[string]any{"job_id": j.ID()}))(t)
		return r.Header("Answered")
	}
	if got := check(); got != want {
		t.Errorf("the reply says %q, want %q", got, want)
	}
	if got := check(); got != "" {
		t.Errorf("the next one says %q, too", got)
	}
	jobstest.Asks(t, j)
	w.run("send", "-n", j.ID(), "ab").expect(t, "delivered\n", "", 0)
	w.run("send", j.ID(), "cd").expect(t, "~\n", "", 0)
	jobstest.Prints(t, j, "then 4")
	jobstest.Asks(t, j)
	w.run("send", j.ID(), "--key", "up", "--key", "enter").expect(t, "delivered\n", "", 0)
	jobstest.Prints(t, j, "^[[A")
	w.run("send", "--eof", j.ID()).expect(t, "~\n", "", 0)
	jobstest.EndsAs(t, j, "completed")
	w.run("send", j.ID(), "x").expect(t, "", "~async-repl: Job "+j.ID()+" has ended: completed. Nothing was sent\n", 1)
	w.run("send", j.ID()).expect(t, "", "~there is nothing to send", 2)
	w.run("send", "--secret", j.ID(), "hunter2").expect(t, "", "~leave it out", 2)
	w.run("send", j.ID(), "--key", "nokey").expect(t, "", "~nokey", 1)
}

// A secret is read from standard input, and shown and kept nowhere.
func TestSecretIsNeverShown(t *testing.T) {
	w, s := serving(t)
	j := s.asking(`printf 'PIN: '; stty -echo; read x; stty echo; echo "${#x} characters"; read y`)
	w.stdin = strings.NewReader("hunter2\n")
	got := w.run("send", "--secret", j.ID())
	got.expect(t, "delivered\n", "", 0)
	jobstest.Prints(t, j, "7 characters")
	if out := jobstest.Output(j); strings.Contains(out, "hunter2") || len(j.Answers()) != 0 {
		t.Errorf("the secret is in the output or kept: %q, %v", out, j.Answers())
	}
	w.stdin = strings.NewReader("")
	w.run("send", "--secret", j.ID()).expect(t, "", "async-repl: send: standard input has no line of less than 64 KiB: nothing was sent\n", 1)
	w.stdin = strings.NewReader(strings.Repeat("x", 100_000) + "\n")
	w.run("send", "--secret", j.ID()).expect(t, "", "async-repl: send: standard input has no line of less than 64 KiB: nothing was sent\n", 1)
}

// At a terminal, a secret is typed without echo; the terminal has its mode of before then, also if
// the command is interrupted.
func TestTerminalHidesSecrets(t *testing.T) {
	w, s := serving(t)
	j := s.asking(`printf 'PIN: '; stty -echo; read x; stty echo; echo "${#x} characters"; read y`)
	for _, interrupt := range []bool{true, false} {
		pty := must.Get(tty.Open(24, 80))(t)
		before := must.Get(pty.Mode())(t)
		ctx, stop := context.WithCancel(t.Context())
		prompts, prompted := must.Get2(os.Pipe())(t)
		done := make(chan int, 1)
		var out bytes.Buffer
		go func() { // ends with the command
			c := w.config(&out, prompted)
			c.In = pty.Slave()
			done <- Run(ctx, []string{"send", "--secret", j.ID()}, c)
			prompted.Close()
		}()
		b := make([]byte, 100)
		if got := string(b[:must.Get(prompts.Read(b))(t)]); got != "PIN:" && got != "PIN: " {
			t.Errorf("the prompt is %q", got)
		}
		if mode := must.Get(pty.Mode())(t); mode.Echo {
			t.Error("the terminal echoes the secret")
		}
		want := 0
		if interrupt {
			want = 130
			stop()
		} else {
			must.Get(pty.Master().Write([]byte("hunter2\n")))(t)
		}
		if code := <-done; code != want {
			t.Errorf("interrupted %t: exit %d", interrupt, code)
		}
		stop()
		prompts.Close()
		if mode := must.Get(pty.Mode())(t); mode != before {
			t.Errorf("interrupted %t: the mode is %+v, and was %+v", interrupt, mode, before)
		}
		must.Get(pty.Slave().Write([]byte("end")))(t)
		shown := ""
		for !strings.HasSuffix(shown, "end") {
			shown += string(b[:must.Get(pty.Master().Read(b))(t)])
		}
		if strings.Contains(shown, "hunter2") {
			t.Errorf("the terminal has shown %q", shown)
		}
		pty.Close() // ends the read for an interrupted command
	}
	jobstest.Prints(t, j, "7 characters")
}

// A Python job takes the line that it asks for.
func TestSendAnswersPython(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.python = pythontest.Real(t)
	s := w.serve()
	reply := must.Get(s.agent.Call(t.Context(), "execute_python", map[string]any{"code": "a = input('One? ')\nb = input('Two? ')\nprint([a, len(b)])", "wait_seconds": 60}))(t)
	j := must.Get(s.Jobs().Get(reply.Header("Job ID")))(t)
	jobstest.Asks(t, j)
	w.run("send", j.ID(), "x y").expect(t, "delivered\n", "", 0)
	jobstest.Asks(t, j)
	w.stdin = strings.NewReader("hunter2\n")
	w.run("send", "--secret", j.ID()).expect(t, "delivered\n", "", 0)
	jobstest.EndsAs(t, j, "completed")
	jobstest.Prints(t, j, "['x y', 7]")
	if answers := j.Answers(); len(answers) != 0 {
		t.Errorf("kept for notebooks: %+v", answers)
	}
}

// A cancel is by a person.
func TestCancel(t *testing.T) {
	w, s := serving(t)
	one, two := s.start("sleep 100"), s.start("trap '' INT; sleep 100")
	w.run("cancel", one.ID(), "01ARZ3NDEKTSV4RRFFQ69G5FAV").expect(t, "~"+one.ID()+" cancelled (", "~there is no job", 1)
	w.run("cancel", "--force", two.ID()).expect(t, "~"+two.ID()+" cancelled (", "", 0)
	for _, j := range []*jobs.Job{one, two} {
		if by := jobstest.End(t, j).Receipt.By; by != jobs.Person {
			t.Errorf("ended by %q", by)
		}
	}
	w.run("cancel", one.ID()).expect(t, "~note: it had ended before, and nothing of it is running\n", "", 0)
}
