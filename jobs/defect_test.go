package jobs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// impossible are moves that no job makes, by a job that has begun.
var impossible = map[string]struct {
	act    func(puppet)
	says   string
	queued bool // the job has not begun
}{
	"waits in the queue":  {act: func(p puppet) { p.port.SetWaiting(Question{Kind: "line"}) }, says: "invalid move from queued to waiting_input", queued: true},
	"late before the end": {act: func(p puppet) { p.port.AmendReceipt(func(*Receipt) {}) }, says: "late news of a job that has not ended"},
}

func TestImpossibleMovesPanic(t *testing.T) {
	for name, tc := range impossible {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, s stage) {
				p := s.queue(Spec{})
				if !tc.queued {
					p.port.Begin()
				}
				defer func() {
					if msg, ok := recover().(string); !ok || !strings.Contains(msg, tc.says) || !strings.Contains(msg, p.ID()) {
						t.Errorf("panic with %q, want one that names the job and says %q", msg, tc.says)
					}
				}()
				tc.act(p)
			})
		})
	}
}

func TestImpossibleMovesFailTheJob(t *testing.T) {
	for name, tc := range impossible {
		t.Run(name, func(t *testing.T) {
			var told []string
			bubble(t, Config{Bug: func(msg string) { told = append(told, msg) }}, func(t *testing.T, s stage) {
				p := s.queue(Spec{})
				if !tc.queued {
					p.port.Begin()
				}
				tc.act(p)
				if len(told) != 1 || !strings.Contains(told[0], tc.says) || !strings.Contains(told[0], p.ID()) {
					t.Fatalf("told %q, want one that names the job and says %q", told, tc.says)
				}
				// The runner is asked to let go, at the last rung, and the job is not final before.
				st, _ := p.port.Stop()
				if p.ctx.Err() == nil || st == nil || st.From != Kill {
					t.Fatalf("runner was not asked to end: %+v", st)
				}
				if i := p.Info(); i.Status.Final() {
					t.Fatalf("%s before the runner has returned", i.Status)
				}
				p.out <- Outcome{Receipt: Receipt{End: Returned, State: Lost, Left: []Process{{812, "sleep"}}}, Result: "42", HasResult: true}
				<-p.Done()
				i := p.Info()
				if got := i.Receipt.Text(); got != "failed (internal error; variables lost)" || i.Status != Failed || i.HasResult || i.Result != "" {
					t.Errorf("ended as %q, result %q", got, i.Result)
				}
				if i.Receipt.Detail != told[0] || len(i.Receipt.Left) != 1 {
					t.Errorf("receipt %+v", i.Receipt)
				}
				if i := s.begin(Spec{}).end(Receipt{End: Returned}); i.Status != Completed {
					t.Errorf("the next job is %s", i.Status)
				}
			})
		})
	}
}

// A runner that says completed of a job that never ran is wrong as well.
func TestImpossibleEnd(t *testing.T) {
	var told []string
	bubble(t, Config{Bug: func(msg string) { told = append(told, msg) }}, func(t *testing.T, s stage) {
		p := s.queue(Spec{})
		i := p.end(Receipt{End: Returned})
		if i.Receipt.Text() != "failed (internal error)" || len(told) != 1 || !strings.Contains(told[0], `runner ended it as "completed" while queued`) {
			t.Errorf("ended as %q, told %q", i.Receipt.Text(), told)
		}
	})
}

// A final status stands, whatever else is found to be wrong.
func TestDefectAfterTheEnd(t *testing.T) {
	for name, act := range map[string]func(*Port){
		"begins":         (*Port).Begin,
		"another status": func(p *Port) { p.AmendReceipt(func(r *Receipt) { r.End = Raised }) },
	} {
		t.Run(name, func(t *testing.T) {
			told := 0
			bubble(t, Config{Bug: func(string) { told++ }}, func(t *testing.T, s stage) {
				p := s.begin(Spec{})
				p.end(Receipt{End: Returned})
				act(p.port)
				if i := p.Info(); i.Receipt.Text() != "completed" || i.Status != Completed || told != 1 {
					t.Errorf("%s, %q, told %d times", i.Status, i.Receipt.Text(), told)
				}
			})
		})
	}
}

// crashes are ends of the whole program, played by a child.
var crashes = map[string]struct {
	run  runFunc
	says string
}{
	"runner panics":    {func(context.Context, *Port) Outcome { panic("boom") }, "panic: boom"},
	"runner ends ajar": {func(context.Context, *Port) Outcome { return Outcome{Receipt: Receipt{End: Returned}} }, "while queued"},
}

// A panic of a runner is not recovered, with or without somebody to tell of defects; a move that
// can't be is one where there is nobody.
func TestCrash(t *testing.T) {
	const variable = "JOBS_TEST_CRASH"
	if name := os.Getenv(variable); name != "" {
		j, err := NewRegistry(Config{}).Start(Spec{}, crashes[name].run)
		if err != nil {
			t.Fatal(err)
		}
		<-j.Done()
		return
	}
	for name, tc := range crashes {
		t.Run(name, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrash$")
			child.Env = append(os.Environ(), variable+"="+name)
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), tc.says) {
				t.Errorf("got %v, want exit status 2 and %q; it said\n%s", err, tc.says, out)
			}
		})
	}
}
