package place

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A job does not overtake a call that was sent on before it. It waits until that has taken effect, and not for its
// answer.
func TestJobAfterACall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		may, end := make(chan struct{}), make(chan struct{})
		m := newMachine(t, linktest.Runners{"hello": prints("hello\n")})
		m.works = func(begun func()) {
			<-may
			begun()
			<-end
		}
		s := serve(t, m, nil)
		began := time.Now()
		var calls sync.WaitGroup
		calls.Go(func() {
			if _, _, err := s.ps.Call(t.Context(), "gpu", "restart", []byte(`{"session":"a"}`)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		j := s.startAs(server.Start{Tool: "hello", Kind: jobs.Python, Session: "a"})
		time.Sleep(500 * time.Millisecond)
		if status := j.Record().Status; status != jobs.Queued {
			t.Errorf("before the call has taken effect, the job is %s", status)
		}
		close(may)
		jobstest.EndsAs(t, j, "completed")
		if d := time.Since(began); d >= beginTime {
			t.Errorf("the job has waited for the answer: it ended after %v", d)
		}
		close(end)
		calls.Wait()
	})
}

// The jobs of a session come there in order, and a call for it comes after them, also if one between them is
// cancelled before it is sent. Other sessions don't wait.
func TestTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var came []string
		held, may := make(chan struct{}), make(chan struct{})
		m := newMachine(t, linktest.Runners{"hello": prints("hello\n")})
		m.wrap = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodPut || r.URL.Path == "/link/call" {
				mu.Lock()
				came = append(came, r.URL.Path)
				first := len(came) == 1
				mu.Unlock()
				if first {
					close(held)
					<-may
				}
			}
			next.ServeHTTP(w, r)
		}
		s := serve(t, m, nil)
		in := func(session string) *jobs.Job {
			return s.startAs(server.Start{Tool: "hello", Kind: jobs.Python, Session: session})
		}
		first := in("a")
		<-held
		second, third := in("a"), in("a")
		synctest.Wait()
		second.Stop(jobs.Stop{By: jobs.Agent})
		jobstest.EndsAs(t, second, "cancelled (before it ran)")
		var calls sync.WaitGroup
		calls.Go(func() {
			if _, _, err := s.ps.Call(t.Context(), "gpu", "restart", []byte(`{"session":"a"}`)); err != nil {
				t.Error(err)
			}
		})
		other := in("b")
		jobstest.EndsAs(t, other, "completed")
		synctest.Wait()
		close(may)
		jobstest.EndsAs(t, third, "completed")
		calls.Wait()
		path := func(j *jobs.Job) string { return "/link/jobs/" + j.ID() }
		if want := []string{path(first), path(other), path(third), "/link/call"}; !slices.Equal(came, want) {
			t.Errorf("%q came, want %q", came, want)
		}
		if n := len(s.ps.turns.last); n != 0 {
			t.Errorf("%d turns are left", n)
		}
	})
}
