package jobs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/test/must"
)

// impossible holds moves that no job can make, by a job that has begun.
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
			var reported []string
			bubble(t, Config{Bug: func(msg string) { reported = append(reported, msg) }}, func(t *testing.T, s stage) {
				p := s.queue(Spec{})
				if !tc.queued {
					p.port.Begin()
				}
				tc.act(p)
				if len(reported) != 1 || !strings.Contains(reported[0], tc.says) || !strings.Contains(reported[0], p.ID()) {
					t.Fatalf("reported %q, want one that names the job and says %q", reported, tc.says)
				}
				// The runner is asked to end at the last rung, and the job is not final before it
				// has.
				st := p.port.Stop()
				if p.ctx.Err() == nil || st == nil || st.From != Kill {
					t.Fatalf("runner was not asked to end: %+v", st)
				}
				if i := p.Record(); i.Status.Final() {
					t.Fatalf("%s before the runner has returned", i.Status)
				}
				p.out <- Outcome{Receipt: Receipt{End: Returned, State: Lost, Left: []Process{{812, "sleep"}}}, Result: "42", HasResult: true}
				<-p.Done()
				i := p.Record()
				want := Receipt{End: Internal, Detail: reported[0], By: Unknown, State: Lost, Left: []Process{{812, "sleep"}}}
				if d := cmp.Diff(want, i.Receipt); d != "" || i.Status != Failed || i.HasResult || i.Result != "" {
					t.Errorf("%s, result %q, receipt %s", i.Status, i.Result, d)
				}
				if i := s.begin(Spec{}).end(Receipt{End: Returned}); i.Status != Completed {
					t.Errorf("the next job is %s", i.Status)
				}
			})
		})
	}
}

func TestJobThatNeverRanCantComplete(t *testing.T) {
	var reported []string
	bubble(t, Config{Bug: func(msg string) { reported = append(reported, msg) }}, func(t *testing.T, s stage) {
		p := s.queue(Spec{})
		i := p.end(Receipt{End: Returned})
		if i.Receipt.Text() != "failed (internal error)" || len(reported) != 1 || !strings.Contains(reported[0], `runner ended it as "completed" while queued`) {
			t.Errorf("ended as %q, reported %q", i.Receipt.Text(), reported)
		}
	})
}

func TestFinalStatusStandsAfterADefect(t *testing.T) {
	for name, act := range map[string]func(*Port){
		"begins":         (*Port).Begin,
		"another status": func(p *Port) { p.AmendReceipt(func(r *Receipt) { r.End = Raised }) },
	} {
		t.Run(name, func(t *testing.T) {
			reported := 0
			bubble(t, Config{Bug: func(string) { reported++ }}, func(t *testing.T, s stage) {
				p := s.begin(Spec{})
				p.end(Receipt{End: Returned})
				act(p.port)
				if i := p.Record(); i.Receipt.Text() != "completed" || i.Status != Completed || reported != 1 {
					t.Errorf("%s, %q, reported %d times", i.Status, i.Receipt.Text(), reported)
				}
			})
		})
	}
}

// crashes holds runners that end the whole program, which a child process runs.
var crashes = map[string]struct {
	run  runFunc
	says string
}{
	"runner panics":    {func(context.Context, *Port) Outcome { panic("boom") }, "panic: boom"},
	"runner ends ajar": {func(context.Context, *Port) Outcome { return Outcome{Receipt: Receipt{End: Returned}} }, "while queued"},
}

// A panic of a runner is never recovered, and without Config.Bug an impossible move panics, too.
func TestPanicsAreNotRecovered(t *testing.T) {
	const variable = "JOBS_TEST_CRASH"
	if name := os.Getenv(variable); name != "" {
		j := must.Get(NewRegistry(Config{}).Start(Spec{}, crashes[name].run))(t)
		<-j.Done()
		return
	}
	for name, tc := range crashes {
		t.Run(name, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanicsAreNotRecovered$")
			child.Env = append(os.Environ(), variable+"="+name)
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), tc.says) {
				t.Errorf("got %v, want exit status 2 and %q; it said\n%s", err, tc.says, out)
			}
		})
	}
}
