//go:build unix

package browsertest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"asyncrepl/internal/client/keeper"
	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/page"
	"asyncrepl/internal/people/hub"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A group is engines at their sockets, joined to one page.
type group struct {
	t     testing.TB
	place string // the directory of the sockets
	made  int
}

// newGroup returns a group, and a bench of no engine whose tabs show the page over all of the group.
func newGroup(t testing.TB) (*group, *bench) {
	t.Helper()
	g := &group{t: t, place: filepath.Join(t.TempDir(), "sockets")}
	h := hub.New([]string{g.place}, func(line string) { t.Log(line) })
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) }) // owned by the test, which waits for it
	t.Cleanup(func() { cancel(); running.Wait() })
	api := h.API()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			api.ServeHTTP(w, r)
		} else if !page.Static(w, r, false) {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return g, &bench{t: t, address: server.URL}
}

// add puts an engine at a socket of the group, until stop.
func (g *group) add() (b *bench, stop func()) {
	g.t.Helper()
	b = newBench(g.t)
	g.made++
	identity := fmt.Sprintf("%024x", g.made)
	k := keeper.New(keeper.Config{
		Engine: b.Engine, Version: "test", Lone: "it is part of a test", Scope: b.scope, Log: slog.New(slog.DiscardHandler),
		Around: sockets.Surroundings{Places: []string{g.place}, Search: []string{g.place}, Identity: func() (string, error) { return identity, nil }},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { // owned by the test; ends with stop
		defer close(ended)
		k.Run(ctx, nil)
		k.Wait(context.Background())
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	g.t.Cleanup(stop)
	return b, stop
}

// heads waits until the list has these headings.
func (tb *tab) heads(want ...string) {
	tb.t.Helper()
	tb.until(fmt.Sprintf(`[...document.querySelectorAll("nav h2")].map(e => e.innerText).join("\n") === %s`, quote(strings.Join(want, "\n"))))
}

// Each server is a group of the list. Those of its jobs that wait are on top of all, and say where they are. The
// jobs of a server that is lost do not wait: nothing can answer them.
func TestServersOnThePage(t *testing.T) {
	g, all := newGroup(t)
	a, stop := g.add()
	b, _ := g.add()
	asks := a.terminal("read -p 'Password of a? ' x")
	jobstest.Asks(t, asks)
	other := b.terminal("read -p 'Name of b? ' x; echo hello $x")
	jobstest.Asks(t, other)
	jobstest.End(t, b.pipe("echo end"))
	tb := all.open("/")
	tb.heads("waiting", b.Workspace())
	tb.until(`document.title === "(2) async-repl"`)
	for j, of := range map[*jobs.Job]*bench{asks: a, other: b} {
		tb.shows(row(j)+" .where", filepath.Base(of.Workspace()))
		tb.click(row(j))
		tb.shows("header.job .server", of.Workspace())
		tb.until(`!document.querySelector("[data-answer] .primary").disabled`)
	}
	tb.click(row(asks))
	tb.shows("[data-answer]", "Password of a?")
	stop()
	tb.heads("waiting", a.Workspace()+" disconnected", b.Workspace())
	tb.shows("header.job .server", "disconnected")
	tb.until(`document.title.startsWith("(1) ")`)
	for _, button := range []string{"[data-answer] .primary", "[data-cancel]", "[data-force]"} {
		tb.until(fmt.Sprintf(`document.querySelector(%q).disabled`, button))
	}
	tb.click(row(other))
	tb.answer("bob")
	tb.shows("#output", "hello bob")
	jobstest.EndsAs(t, other, "completed")
	tb.heads(a.Workspace()+" disconnected", b.Workspace())
}

// A server with many jobs does not hide the jobs of the others. All of its own are shown by scrolling, and 300 at
// once if only it is chosen.
func TestManyJobsOfOneServer(t *testing.T) {
	g, all := newGroup(t)
	a, _ := g.add()
	b, _ := g.add()
	old := a.pipe("sleep 1000")
	for range 320 {
		jobstest.End(t, b.job("one of many", func(context.Context) {}))
	}
	tb := all.open("/")
	tb.shows(row(old), "sleep 1000")
	tb.heads(a.Workspace(), b.Workspace())
	tb.shows("nav", "170 more jobs")
	// A long name is shown by its end, where it differs from others.
	tb.until(fmt.Sprintf(`document.querySelector("select[aria-label='only one server']").options[2].text.endsWith(%s)`, quote("/"+filepath.Base(b.Workspace()))))
	tb.until(`(document.querySelector("nav").scrollTop = 1e9, document.querySelectorAll("[data-job]").length === 321)`)
	value[any](tb, `{
		document.querySelector("nav").scrollTop = 0;
		const choice = document.querySelector("select[aria-label='only one server']");
		choice.selectedIndex = 2;
		choice.dispatchEvent(new Event("change"));
		null
	}`)
	tb.shows("nav", "20 more jobs")
}

// Two servers of one workspace have different names.
func TestServersOfOneWorkspace(t *testing.T) {
	g, all := newGroup(t)
	a, _ := g.add()
	tb := all.open("/")
	jobstest.End(t, a.pipe("echo a"))
	tb.until(`document.querySelectorAll("[data-job]").length === 1`)
	value[any](tb, `import("/live.mjs").then(({ announce, state }) => {
		state.servers = [{id: state.servers[0].id, workspace: "/w"}, {id: "f00d-7", workspace: "/w", lost: true}];
		announce();
	})`)
	tb.heads(fmt.Sprintf("/w (process %d)", os.Getpid()), "/w (process 7) disconnected")
}

// A row that the keyboard reaches is not behind the filter.
func TestFocusedRowIsSeen(t *testing.T) {
	b := newBench(t)
	for i := range 30 {
		b.job(fmt.Sprintf("job %d", i), func(context.Context) {})
	}
	tb := b.open("/")
	tb.until(`document.querySelectorAll("[data-job]").length === 30`)
	for range 30 {
		tb.keys("j")
	}
	for range 29 {
		tb.keys("k")
		if value[bool](tb, `document.activeElement.getBoundingClientRect().top < document.querySelector(".filter").getBoundingClientRect().bottom - 1`) {
			t.Fatalf("%s is behind the filter", value[string](tb, `document.activeElement.innerText`))
		}
	}
}

// A row without a time has its status below its title, as the others do.
func TestRowWithoutTime(t *testing.T) {
	b := newBench(t)
	j := b.pipe("echo end")
	jobstest.End(t, j)
	tb := b.open("/")
	tb.shows(row(j), "completed")
	value[any](tb, fmt.Sprintf(`{document.querySelector(%s).remove(); null}`, quote(row(j)+" time")))
	tb.until(fmt.Sprintf(`(e => e.querySelector(".status").getBoundingClientRect().top >= e.querySelector(".title").getBoundingClientRect().bottom)(document.querySelector(%s))`, quote(row(j))))
}

// The buttons that end a job are gone with it, even if one of them was refused.
func TestRefusalEndsWithTheJob(t *testing.T) {
	b := newBench(t)
	j := b.terminal("read x")
	tb := b.open(path(j))
	tb.until(`document.querySelector("[data-cancel]") !== null`)
	tb.expect("404")
	value[any](tb, `{
		const fetches = window.fetch;
		window.fetch = (path, how) => fetches(how?.method === "POST" ? "/api/jobs/none/cancel" : path, how);
		null
	}`)
	tb.click("[data-cancel]")
	tb.shows(".refusal", " ")
	tb.click(".xterm-screen")
	tb.keys(kb.Enter)
	jobstest.EndsAs(t, j, "completed")
	tb.shows("header.job", "completed")
	tb.until(`document.querySelector("[data-cancel]") === null`)
}

// The time of a job stops when its server is lost, and that of the others counts on.
func TestTimeOfALostJob(t *testing.T) {
	g, all := newGroup(t)
	a, stop := g.add()
	b, _ := g.add()
	lost, runs := a.pipe("sleep 1000"), b.pipe("sleep 1000")
	tb := all.open(path(lost))
	time := func(j *jobs.Job) string {
		t.Helper()
		return value[string](tb, fmt.Sprintf(`document.querySelector('%s time').innerText`, row(j)))
	}
	counts := func(j *jobs.Job) {
		t.Helper()
		now := quote(time(j))
		tb.until(fmt.Sprintf(`document.querySelector('%s time').innerText !== %s`, row(j), now))
	}
	tb.shows(row(lost)+" time", " s")
	tb.shows(row(runs)+" time", " s")
	counts(lost)
	stop()
	tb.shows("header.job .server", "disconnected")
	counts(runs) // so what the lost job shows is from after the loss
	counts(runs)
	stands := time(lost)
	counts(runs)
	counts(runs)
	if now := time(lost); now != stands {
		t.Errorf("the time of the lost job went on from %s to %s", stands, now)
	}
	tb.shows("header.job time", stands)
}
