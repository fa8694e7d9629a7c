//go:build unix

package page_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"asyncrepl/internal/output"
	"asyncrepl/internal/page"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A page gets the whole list in parts, and then what changes.
func TestPageFollowsTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if p := w.tab().listed(); len(p.rows) != 0 || p.lists != 1 {
		t.Errorf("of no job: %d in %d messages", len(p.rows), p.lists)
	}
	w.done(2*page.ListMax + 1)
	p := w.tab().listed()
	if len(p.rows) != 2*page.ListMax+1 || p.lists != 3 {
		t.Errorf("%d jobs in %d messages", len(p.rows), p.lists)
	}
	j := w.shell(`printf 'name? '; read x; echo "hello $x"`)
	p.shows(j, "waiting_input")
	if q := p.rows[j.ID()].Question; q == nil || q.Kind != "line" || q.Prompt != "name? " || !strings.Contains(q.By, "sh") {
		t.Errorf("asks %+v", q)
	}
	before := p.messages
	if r := w.do("POST", "/api/jobs/"+j.ID()+"/input", `{"text":"Ada\n"}`); r.status != http.StatusNoContent {
		t.Errorf("answer: %d %s", r.status, r.body)
	}
	p.shows(j, "completed")
	if got := p.rows[j.ID()]; got.Question != nil || got.StatusText != "completed" {
		t.Errorf("ended as %+v", got)
	}
	if p.messages-before > 5 || len(p.rows) != 2*page.ListMax+2 {
		t.Errorf("one job has changed: %d messages, %d jobs", p.messages-before, len(p.rows))
	}
}

// A page misses no change of many jobs at once.
func TestPageFollowsManyJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.tab().listed()
	var starting sync.WaitGroup
	for range 8 {
		starting.Go(func() { w.done(100) }) // joined below
	}
	starting.Wait()
	p.until("all to have ended", func() bool {
		for _, r := range p.rows {
			if r.Status != "completed" {
				return false
			}
		}
		return len(p.rows) == 800
	})
}

// A job that is forgotten leaves the list of a page.
func TestForgottenJobLeavesThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.done(1)[0]
	p := w.tab().listed()
	w.done(1000) // as many as are kept
	p.until("the first to be forgotten", func() bool { return len(p.removed) > 0 })
	if p.removed[0] != first.ID() || p.rows[first.ID()].ID != "" {
		t.Errorf("removed %v, not %s", p.removed, first.ID())
	}
	p.opens(first, 0)
	if p.until("no job", func() bool { return p.gone != "" }); p.gone != first.ID() {
		t.Errorf("gone: %q", p.gone)
	}
}

// The open job is sent at once and at each change; its output from the cursor on, with its streams.
func TestPageFollowsTheOpenJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	more := make(chan string)
	j := w.job("steps", func(_ context.Context, port *jobs.Port) {
		port.Write(output.Stdout, []byte("first "))
		for text := range more {
			port.Write(output.Stderr, []byte(text))
		}
	})
	jobstest.Prints(t, j, "first ")
	p := w.tab().listed()
	p.opens(j, 2)
	p.prints("rst ")
	if p.until("the job", func() bool { return p.job != nil }); p.job.Status != "running" || string(p.output) != "rst " {
		t.Errorf("opened as %+v, %q", p.job, p.output)
	}
	more <- "second "
	p.prints("second ")
	reloaded := w.tab()
	reloaded.opens(j, 6)
	reloaded.prints("second ")
	close(more)
	p.until("the end", func() bool { return p.job.Status == "completed" })
	if string(p.output) != "rst second " || p.streams != " stdout stderr" || string(reloaded.output) != "second " {
		t.Errorf("got %q of%s; after a reload %q", p.output, p.streams, reloaded.output)
	}
	p.opens(j, 6)
	p.prints("second ")
	p.says(map[string]any{"op": "close"})
	p.until("nothing more", func() bool { return p.job != nil })
	p.opens(j, j.Log().Stat().End+1)
	p.until("a refusal", func() bool { return len(p.refused) > 0 })
	if want := "cursor must be a number from 0 to 13, the end of the output."; p.refused[0] != want || len(p.output) != 0 {
		t.Errorf("beyond the end: %q, %q", p.refused, p.output)
	}
}

// A connection without the list has the open job, and nothing of the list.
func TestPageWithoutTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.shell("read x; echo got $x")
	jobstest.Asks(t, j)
	p := openTab(t, w.server.URL+"/api/live?list=no", nil)
	p.opens(j, 0)
	p.says(map[string]any{"op": "keys", "job": j.ID(), "text": "it\r"})
	p.until("the end", func() bool {
		return p.job != nil && p.job.Status == "completed" && bytes.Contains(p.output, []byte("got it"))
	})
	if len(p.rows) > 0 || p.lists > 0 { // a change of the list is sent before that of the open job
		t.Errorf("it has %d jobs, in %d messages", len(p.rows), p.lists)
	}
}

// What a process writes after the end of its job is on the page, too.
func TestPageShowsLateOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var port *jobs.Port
	j := w.job("late", func(_ context.Context, p *jobs.Port) { port = p })
	jobstest.End(t, j)
	p := w.tab()
	p.opens(j, 0)
	p.until("the end", func() bool { return p.job != nil && p.job.Status == "completed" })
	port.Write(output.Stdout, []byte("late"))
	p.prints("late")
}

// A flood is a job that has written n bytes, and writes more when it receives how many.
func (w *world) flood(n int) (j *jobs.Job, write func(n int), end func()) {
	w.t.Helper()
	return flood(w.t, w.Jobs(), n)
}

func flood(t testing.TB, r *jobs.Registry, n int) (j *jobs.Job, write func(n int), end func()) {
	t.Helper()
	ask, wrote := make(chan int), make(chan bool)
	j = startJob(t, r, "flood", func(_ context.Context, port *jobs.Port) {
		line := bytes.Repeat([]byte("0123456789abcde\n"), 4096)
		for n := range ask {
			for ; n > 0; n -= len(line) {
				port.Write(output.TTY, line[:min(n, len(line))])
			}
			wrote <- true
		}
	})
	write = func(n int) { ask <- n; <-wrote }
	write(n)
	end = sync.OnceFunc(func() { close(ask) })
	t.Cleanup(end)
	return j, write, end
}

// A page that draws nothing is sent 256 KiB, and then no more until it has drawn some of that.
func TestServerWaitsForWhatIsDrawn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j, write, _ := w.flood(page.Lag)
	p := w.tab().listed()
	p.lazy = true
	p.opens(j, 0)
	p.until("the window", func() bool { return p.at == page.Window })
	const next = page.Window + 1000
	for _, say := range []struct{ drawn, at int64 }{{1000, next}, {500, next}, {1 << 40, next + page.Window}} { // a page can say anything
		p.says(map[string]any{"op": "drawn", "job": j.ID(), "cursor": say.drawn})
		p.until("more", func() bool { return p.at == say.at })
	}
	p.says(map[string]any{"op": "drawn", "job": "another", "cursor": p.at})
	write(1)
	marker := w.done(1)[0]
	p.shows(marker, "completed") // what is sent after the output would be
	if p.at != next+page.Window || p.skipped != 0 {
		t.Errorf("sent up to %d, %d skipped", p.at, p.skipped)
	}
	p.lazy = false
	p.draws()
	p.until("all", func() bool { return p.at == page.Lag+1 })
}

// A page that is more than 1 MiB behind continues at the newest 1 MiB, once it has drawn what it got.
func TestPageThatIsBehindGoesOnAtTheNewest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const all = 5 << 20
	j, write, end := w.flood(all)
	p := w.tab().listed()
	p.lazy = true
	p.opens(j, 0)
	p.until("the window", func() bool { return p.at == all-page.Lag+page.Window })
	if p.skipped != all-page.Lag {
		t.Errorf("skipped %d of %d", p.skipped, all)
	}
	p.draws()
	p.until("the next window", func() bool { return p.at == all-page.Lag+2*page.Window })
	write(3 << 20)
	p.says(map[string]any{"op": "drawn", "job": j.ID(), "cursor": p.at - 1})
	p.says(map[string]any{"op": "what?"})
	p.until("the answer to what came after it", func() bool { return p.refused != nil })
	for range 2 {
		p.shows(w.done(1)[0], "completed") // what is sent after the output would be
	}
	if p.at != all-page.Lag+2*page.Window {
		t.Errorf("was sent more before it had drawn what it got: up to %d", p.at)
	}
	p.lazy = false
	p.draws()
	p.until("all", func() bool { return p.at == all+3<<20 })
	if want := int64(all - page.Lag + 3<<20 - 2*page.Window); p.skipped != want || int64(len(p.output)) != p.at-want {
		t.Errorf("skipped %d and got %d, want %d skipped", p.skipped, len(p.output), want)
	}
	end()
	p.until("the end", func() bool { return p.job.Status == "completed" })
}

// Bytes that the log has dropped count as skipped.
func TestDroppedBytesAreSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j, _, _ := w.flood(20 << 20) // 16 MiB of a job are kept
	stat := j.Log().Stat()
	if len(stat.Gaps) != 1 {
		t.Fatalf("gaps %v", stat.Gaps)
	}
	gap := stat.Gaps[0]
	p := w.tab().listed()
	p.opens(j, gap.From-100)
	p.until("the end", func() bool { return p.at == stat.End })
	if got := int64(len(p.output)); p.skipped+got != stat.End-gap.From+100 || got != page.Lag {
		t.Errorf("skipped %d and got %d", p.skipped, got)
	}
}

// Dropped bytes count as skipped also on a page that is not behind.
func TestDroppedBytesOfTheNewest(t *testing.T) {
	t.Parallel()
	w := (&world{t: t, output: 512 << 10}).begin()
	const all = 900 << 10
	j, _, _ := w.flood(all)
	dropped := j.Log().Stat().Dropped
	p := w.tab().listed()
	p.opens(j, 0)
	p.until("the end", func() bool { return p.at == all })
	if dropped == 0 || p.skipped != dropped || int64(len(p.output)) != all-dropped {
		t.Errorf("skipped %d and got %d of %d; %d were dropped", p.skipped, len(p.output), all, dropped)
	}
}

// A page that reads nothing holds no other page up, and the job writes as it does without the page.
func TestPageThatReadsNothingDisturbsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j, write, end := w.flood(1)
	for range 10 {
		p := w.tab()
		p.lazy = true
		p.opens(j, 0)
	}
	p := w.tab().listed()
	p.opens(j, 0)
	write(8 << 20)
	end()
	jobstest.End(t, j)
	p.until("the end", func() bool { return p.at == 8<<20+1 && p.job != nil && p.job.Status == "completed" })
}

// Fifty pages follow one job to its end.
func TestFiftyPagesFollowAFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j, write, end := w.flood(1)
	c := w.watch(50, j.ID(), true)
	write(4 << 20)
	c.end.Store(4<<20 + 1)
	end()
	c.reading.Wait()
	if n := c.saw.Load(); n != 50 {
		t.Errorf("%d pages saw the end", n)
	}
}

// Keys are typed in their order, for whatever job they name.
func TestKeysOfAPageAreTyped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.shell(`stty raw -echo; echo ready; head -c 11; echo; echo done`)
	jobstest.Prints(t, j, "ready")
	p := w.tab().listed()
	p.opens(j, 0)
	for _, key := range strings.Split("abc\x1b[Ade\x03fg", "") {
		p.says(map[string]any{"op": "keys", "job": j.ID(), "text": key})
	}
	p.until("the end", func() bool { return p.job != nil && p.job.Status == "completed" && p.at == j.Log().Stat().End })
	if !bytes.Contains(p.output, []byte("abc\x1b[Ade\x03fg")) || p.job.Answered == nil || p.job.Answered.By != "person" {
		t.Errorf("output %q, answered %+v", p.output, p.job.Answered)
	}
	p.says(map[string]any{"op": "keys", "job": j.ID(), "text": "x"})
	p.says(map[string]any{"op": "keys", "job": "nothing", "text": ""})
	p.until("a refusal", func() bool { return len(p.refused) == 1 })
	p.says(map[string]any{"op": "keys", "job": "nothing", "text": "x"})
	p.until("a refusal", func() bool { return len(p.refused) == 2 })
	p.says(map[string]any{"op": "keys", "job": j.ID(), "text": strings.Repeat("x", page.AnswerMax)})
	p.until("a refusal", func() bool { return len(p.refused) == 3 })
	want := fmt.Sprintf("Job %s has ended: completed. Nothing was sent.|There is no such job; nothing was sent.|More than 64 KiB that no program has taken; nothing was sent.", j.ID())
	if got := strings.Join(p.refused, "|"); got != want {
		t.Errorf("refused %q\nwant %q", got, want)
	}
}

// Keys that come while earlier ones are typed are typed together.
func TestKeysAreTypedInTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got, taken, end := make(chan string), make(chan bool), make(chan bool)
	j := w.job("asks", func(_ context.Context, port *jobs.Port) {
		port.SetInput(func(_ context.Context, in jobs.Input) (jobs.Delivery, error) {
			got <- in.Text
			<-taken
			return jobs.Delivery{}, nil
		})
		<-end
	})
	p := w.tab().listed()
	says := func(key string) {
		p.says(map[string]any{"op": "keys", "job": j.ID(), "text": key})
		p.refused = nil
		p.says(map[string]any{"op": "what?"})
		p.until("the answer to what came after it", func() bool { return p.refused != nil })
	}
	says("a")
	first := <-got
	for _, key := range []string{"b", "c", "d"} {
		says(key)
	}
	taken <- true
	second := <-got
	taken <- true
	if first != "a" || second != "bcd" {
		t.Errorf("typed %q, %q", first, second)
	}
	close(end)
}

// Whatever a page sends, it gets a clear error and no other page notices.
func TestMessagesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.tab().listed()
	for text, want := range map[string]string{
		"what?": "The message is no JSON of this protocol.", "[]": "The message is no JSON of this protocol.", `{"op":1}`: "The message is no JSON of this protocol.",
		`{"op":"close","and":"quit"}`: "The message is no JSON of this protocol.", `{"op":"close"} {}`: "The message is no JSON of this protocol.",
		"{}": "There is no op .", `{"op":"<b>"}`: "There is no op <b>.",
	} {
		p.refused = nil
		must.Do(t, p.conn.Write(t.Context(), websocket.MessageText, []byte(text)))
		if p.until("a refusal", func() bool { return p.refused != nil }); p.refused[0] != want {
			t.Errorf("%s: %q", text, p.refused)
		}
	}
	j := w.done(1)[0]
	p.shows(j, "completed")
	must.Do(t, p.conn.Write(t.Context(), websocket.MessageText, bytes.Repeat([]byte("x"), 1<<20+1)))
	ctx, cancel := context.WithTimeout(t.Context(), polltest.Patience)
	defer cancel()
	var err error
	for err == nil { // the last news of the job can come before it
		err = p.step(ctx)
	}
	if websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
		t.Errorf("a message beyond 1 MiB: %v", err)
	}
}

// A WebSocket from a page of another origin is refused; one without an origin is a program.
func TestForeignOriginGetsNoWebSocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dial := func(origin string) int {
		conn, res, err := websocket.Dial(t.Context(), w.server.URL+"/api/live", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {origin}}})
		if err == nil {
			conn.CloseNow()
		}
		return res.StatusCode
	}
	if got := []int{dial(w.server.URL), dial("http://evil.example"), dial("null")}; fmt.Sprint(got) != "[101 403 403]" {
		t.Errorf("got %v", got)
	}
}

// The end of the context ends live connections and their handlers, which wait for their goroutines.
func TestLiveConnectionsEndWithTheContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, end := context.WithCancel(t.Context())
	api, returned := page.API(w.Engine), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r.WithContext(ctx))
		close(returned)
	}))
	defer server.Close()
	p := w.tabAt(server.URL).listed()
	end()
	if err := p.step(t.Context()); err == nil {
		t.Error("the connection is open")
	}
	<-returned
}
