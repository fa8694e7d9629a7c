//go:build unix

package browsertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// numbered returns the lines that a job prints which counts.
func numbered(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("line %d", i+1))
	}
	return lines
}

// all waits until the output has exactly these lines.
func (tb *tab) all(want []string) {
	tb.t.Helper()
	polltest.Check(tb.t, func() error {
		got := tb.lines()
		if slices.Equal(got, want) {
			return nil
		}
		return fmt.Errorf("%d lines, want %d; from %q to %q", len(got), len(want), got[0], got[len(got)-1])
	})
}

// A page that is loaded again in the middle has every byte once, and so has one that changes between jobs.
func TestReloadInTheMiddle(t *testing.T) {
	b := newBench(t)
	const n = 600
	j := b.pipe(fmt.Sprintf("for i in $(seq %d); do echo line $i; sleep 0.01; done", n))
	other := b.pipe("echo other")
	tb := b.open(path(j))
	for _, sign := range []string{"line 50\n", "line 200\n", "line 350\n"} {
		tb.until(fmt.Sprintf(`document.querySelector("#output")?.innerText.includes(%s)`, quote(sign)))
		tb.do(chromedp.Reload())
	}
	tb.shows("#output", "line 400")
	for range 3 {
		tb.click(row(other))
		tb.shows("#output", "other")
		tb.click(row(j))
	}
	jobstest.End(t, j)
	tb.all(numbered(n))
}

// Pieces of output that were under way when the page changed jobs can come late, twice, or beyond a gap. The
// page takes no byte twice and leaves none out. If a job is said to have a terminal, and then to have none, all
// of its output is shown again.
func TestLatePieces(t *testing.T) {
	b := newBench(t)
	j := b.pipe("for i in $(seq 100); do echo line $i; done; read x")
	other := b.pipe("echo other")
	tb := b.open(path(other))
	tb.shows("#output", "other")
	value[any](tb, `{
		const send = WebSocket.prototype.send;
		WebSocket.prototype.send = function (m) { window.socket = this; return send.call(this, m); };
		window.comes = m => socket.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(m) }));
		null
	}`)
	tb.click(row(j))
	tb.all(numbered(100))
	end := j.Log().Stat().End
	piece := func(from int64, text string) {
		value[any](tb, fmt.Sprintf(`{comes({output: {job: %q, from: %d, next: %d, parts: [{stream: "stdout", data: btoa(%s)}]}}); null}`,
			j.ID(), from, from+int64(len(text)), quote(text)))
	}
	piece(0, "line 1\nline 2\n")         // again
	piece(end+1000, "beyond a gap\n")    // before what lies between
	piece(end-9, "line 100\nline 101\n") // half of it again
	piece(end+9, "line 102\n")           // new
	tb.all(numbered(102))
	document := value[string](tb, fmt.Sprintf(`fetch("/api/jobs/%s").then(r => r.text())`, j.ID()))
	value[any](tb, fmt.Sprintf(`{comes({job: {...JSON.parse(%s), rows: 110, columns: 80}}); null}`, quote(document)))
	tb.all(numbered(100)) // what the server says of both: it has no terminal, and it has not printed more
}

// A server that returns is found again, and the output continues where it was.
func TestServerComesBack(t *testing.T) {
	b := newBench(t)
	gate := filepath.Join(t.TempDir(), "gate")
	j := b.pipe(fmt.Sprintf("for i in $(seq 100); do echo line $i; done; until [ -e %s ]; do sleep 0.02; done; for i in $(seq 101 200); do echo line $i; done", gate))
	serve := func(address string) (string, func()) {
		listener := must.Get(net.Listen("tcp", address))(t)
		handler, end := b.endingHandler()
		server := &http.Server{Handler: handler}
		go server.Serve(listener) // owned by the test; ends with the server
		return listener.Addr().String(), func() { end(); server.Close() }
	}
	address, stop := serve("127.0.0.1:0")
	tb := b.tab(1280, 800)
	tb.address = "http://" + address
	tb.navigate(path(j))
	tb.all(numbered(100))
	tb.expect("ERR_CONNECTION")
	stop()
	tb.shows("[role=status]", "disconnected")
	stands := value[bool](tb, `import("/live.mjs").then(({ announce }) => {
		const now = Date.now;
		Date.now = () => now() + 1e8;
		announce();
		return new Promise(drawn => setTimeout(() => setTimeout(drawn)));
	}).then(() => !/:.*:/.test(document.querySelector("header.job time").innerText))`)
	if !stands {
		t.Error("the time of the job counts on without its server")
	}
	must.Do(t, os.WriteFile(gate, nil, 0o600))
	jobstest.End(t, j)
	_, stop = serve(address)
	defer stop()
	tb.hides("[role=status]", "disconnected")
	tb.all(numbered(200))
	tb.shows(row(j), "completed")
}

// A page that can't keep up continues at the newest output, and says how much it has left out. The download
// has the rest.
func TestFloodOnThePage(t *testing.T) {
	b := newBench(t)
	for _, j := range []*jobs.Job{b.pipe("seq 1000000; echo THE-END"), b.terminal("seq 1000000; echo THE-END")} {
		jobstest.End(t, j)
		tb := b.open(path(j))
		tb.shows("#output", "THE-END")
		tb.shows(".tools", "not shown: in the download")
		tb.until(`[...document.querySelectorAll("#output div")].length < 6000`)
	}
}

// A page that shows a job before it gets its terminal shows all in the terminal then.
func TestQueuedJobGetsItsTerminal(t *testing.T) {
	b := newBench(t)
	var running []*jobs.Job
	for range 100 { // as many as may run at once
		running = append(running, b.job("holds a place", func(ctx context.Context) { <-ctx.Done() }))
	}
	for _, r := range running {
		polltest.Until(t, "a job to run", func() bool { return r.Record().Status == jobs.Running })
	}
	j := b.terminal("printf 'at \\033[3;7Hthere'; read x")
	tb := b.open(path(j))
	tb.shows("header.job", "queued")
	running[0].Stop(jobs.Stop{By: jobs.Agent, From: jobs.Interrupt})
	tb.shows(".xterm-rows", "there")
	for _, r := range running {
		r.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Interrupt})
	}
}

// In a window that is lower than a terminal, the line of the cursor is followed, and one can leave it and return.
func TestTerminalInALowWindow(t *testing.T) {
	b := newBench(t)
	j := b.terminal("seq 200; read -p 'Go on? ' x; seq 200; echo THE-END; read -p 'Once more? ' y")
	tb := b.tab(1280, 520)
	tb.navigate(path(j))
	follows := func(text string) {
		t.Helper()
		tb.until(fmt.Sprintf(`(() => {
			const line = [...document.querySelectorAll(".xterm-rows > div")].findLast(e => e.textContent.includes(%s))?.getBoundingClientRect();
			const frame = document.querySelector("#output")?.getBoundingClientRect();
			return line && line.top >= frame.top && line.bottom <= frame.bottom && document.querySelector(".to-end") === null;
		})()`, quote(text)))
	}
	tb.shows("[data-answer]", "Go on?") // its field takes some of the height
	follows("Go on?")
	tb.answer("yes")
	tb.shows("[data-answer]", "Once more?")
	follows("THE-END")
	tb.until(`document.querySelector("#output").scrollTop > 0`)
	tb.wheel("#output", -20000)
	tb.shows(".to-end", "to the end")
	tb.click(".to-end")
	follows("THE-END")
	tb.resize(1280, 420)
	follows("THE-END")
}

// 300 MB of output: the end is on the page, and the page can still be used.
func TestLoadFloodOnThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("300 MB of output")
	}
	b := newBench(t)
	for _, j := range []*jobs.Job{
		b.pipe("seq 40000000 | head -c 300000000; echo; echo THE-END"),
		b.terminal("seq 40000000 | head -c 300000000; echo; echo THE-END"),
	} {
		tb := b.open(path(j))
		tb.shows("#output", "\n") // it watches from the beginning
		<-j.Done()
		tb.shows("#output", "THE-END")
		tb.shows(".tools", "not shown")
		tb.shows(row(j), "completed")
	}
}

// 1,000 jobs: 300 rows at once, more by scrolling, and the filter finds the oldest.
func TestLoadThousandJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("1,000 jobs")
	}
	b := newBench(t)
	var all []*jobs.Job
	for i := range 1000 {
		j := b.job(fmt.Sprintf("job number-%d", i), func(context.Context) {})
		jobstest.End(t, j)
		all = append(all, j)
	}
	tb := b.open("/")
	tb.until(`document.querySelectorAll("[data-job]").length === 300`)
	tb.shows("nav", "700 more jobs")
	tb.until(`(document.querySelector("nav").scrollTop = 1e9, document.querySelectorAll("[data-job]").length === 1000)`)
	tb.keys("/")
	tb.keys("number-0")
	tb.until(`document.querySelectorAll("[data-job]").length === 1`)
	tb.click(row(all[0]))
	tb.shows("header.job", "job number-0")
}

// Twelve tabs of one browser are all live, and the last one can answer.
func TestLoadTwelveTabs(t *testing.T) {
	if testing.Short() {
		t.Skip("twelve tabs")
	}
	b := newBench(t)
	j := b.terminal("echo ready; read -p 'Go on? ' x; echo went on with $x")
	first := b.tab(1280, 800)
	tabs := []*tab{first}
	for range 11 {
		tabs = append(tabs, first.another())
	}
	for _, tb := range tabs {
		tb.navigate(path(j))
		tb.shows(".xterm-rows", "ready")
	}
	tabs[11].answer("luck")
	for _, tb := range tabs {
		tb.shows(".xterm-rows", "went on with luck")
		tb.shows("header.job", "completed")
	}
	if strings.Contains(tabs[0].text(), "disconnected") {
		t.Error("the first tab has lost its connection")
	}
}
