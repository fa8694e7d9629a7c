//go:build unix

package browsertest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// The list has each job with its status and reason, those that wait on top, and follows what changes.
func TestListOnThePage(t *testing.T) {
	b := newBench(t)
	failed := b.pipe("exit 3")
	jobstest.End(t, failed)
	tb := b.open("/")
	tb.shows(row(failed), "failed (exit 3)")
	asks := b.terminal("read -p 'Who? ' x")
	jobstest.Asks(t, asks)
	tb.shows(row(asks), "waiting: Who?")
	runs := b.pipe("sleep 1000")
	tb.shows(row(runs)+"[data-status=running]", "sleep 1000")
	order := func() string {
		return value[string](tb, `[...document.querySelectorAll("[data-job]")].map(e => e.dataset.job).join(" ")`)
	}
	if want := strings.Join([]string{asks.ID(), runs.ID(), failed.ID()}, " "); order() != want {
		t.Errorf("the rows are %s, want %s", order(), want)
	}
	tb.until(`document.title === "(1) async-repl"`)
	tb.answerFrom("/jobs/"+asks.ID(), "bob")
	tb.shows(row(asks), "completed")
	tb.until(`document.title.startsWith("read -p") && document.title.endsWith("async-repl")`)
	tb.shows(row(runs)+" time", " s") // it counts
	before := value[string](tb, fmt.Sprintf(`document.querySelector('%s time').innerText`, row(runs)))
	tb.until(fmt.Sprintf(`document.querySelector('%s time').innerText !== %q`, row(runs), before))
}

// answerFrom opens a job in the tab and answers it.
func (tb *tab) answerFrom(path, text string) {
	tb.t.Helper()
	tb.click(fmt.Sprintf("a[href=%q]", path))
	tb.answer(text)
}

// The filter finds by words, status and session.
func TestFilterOnThePage(t *testing.T) {
	b := newBench(t)
	lab, other := b.python("lab", "apple = 1"), b.python("other", "pear = 1/0")
	jobstest.End(t, lab)
	jobstest.End(t, other)
	tb := b.open("/")
	filter := func(change string, want ...*jobs.Job) {
		t.Helper()
		value[any](tb, `{`+change+`; null}`)
		var ids []string
		for _, j := range want {
			ids = append(ids, j.ID())
		}
		tb.until(fmt.Sprintf(`[...document.querySelectorAll("[data-job]")].map(e => e.dataset.job).join(" ") === %q`, strings.Join(ids, " ")))
	}
	set := func(selector, value, event string) string {
		return fmt.Sprintf(`const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event(%q, {bubbles: true}))`, selector, value, event)
	}
	filter("", other, lab)
	filter(set("[data-filter]", "LAB apple", "input"), lab)
	filter(set("[data-filter]", "nothing", "input"))
	tb.shows("nav", "No job matches.")
	filter(set("[data-filter]", "", "input"), other, lab)
	filter(set("nav select[aria-label='only one status']", "failed", "change"), other)
	filter(set("nav select[aria-label='only one status']", "", "change"), other, lab)
	filter(set("nav select[aria-label='only one session']", "lab", "change"), lab)
}

// A job on pipes is shown as text: live, with its colours, a bar that draws itself over as one line, and
// what it writes to stderr marked.
func TestLogOnThePage(t *testing.T) {
	b := newBench(t)
	gate := filepath.Join(t.TempDir(), "gate")
	j := b.pipe(fmt.Sprintf(`printf 'a \033[1;31mred\033[0m \033[38;2;1;2;3mtrue\033[m b\n'
for i in 1 2 3 4 5; do printf '\r%%s0%%%%|####|' $i; done; printf '\r100%%%%|####|\nab\bc\nlong\r\033[Kx\n'
printf 'one\ntwo\n\033[2A\033[Kfirst\n\n'
printf 'see \033]8;;https://example.org/a\033\\link\033]8;;\033\\ and \033]8;;javascript:alert(1)\033\\none\033]8;;\033\\\n'
echo oops >&2; until [ -e %s ]; do sleep 0.05; done; echo live; exit 3`, gate))
	tb := b.open(path(j))
	want := []string{"a red true b", "100%|####|", "ac", "x", "first", "two", "see link and none", "oops"}
	polltest.Check(t, func() error {
		if got := tb.lines(); !slices.Equal(got, want) {
			return fmt.Errorf("the lines are %q, want %q", got, want)
		}
		return nil
	})
	must.Do(t, os.WriteFile(gate, nil, 0o600))
	tb.shows("#output", "live")
	tb.shows("header.job", "failed (exit 3)")
	for expression, want := range map[string]string{
		`getComputedStyle([...document.querySelectorAll("#output span")].find(e => e.innerText === "red")).color`:      "rgb(179, 38, 30)",
		`getComputedStyle([...document.querySelectorAll("#output span")].find(e => e.innerText === "red")).fontWeight`: "700",
		`getComputedStyle([...document.querySelectorAll("#output span")].find(e => e.innerText === "true")).color`:     "rgb(1, 2, 3)",
		`[...document.querySelectorAll("#output a")].map(e => e.innerText + "=" + e.href).join()`:                      "link=https://example.org/a",
		`document.querySelector("#output .has-stderr .stderr").innerText`:                                              "oops",
	} {
		if got := value[string](tb, expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
}

// A character or an escape sequence that comes in pieces is shown as one.
func TestPiecesOnThePage(t *testing.T) {
	b := newBench(t)
	gates := t.TempDir()
	var line strings.Builder
	for i, piece := range []string{`\303`, `\244 \033`, `[3`, `1mred\033[`, `0m\033]8;;https://example.org/`, `\007link\033]8;;\007\n`} {
		fmt.Fprintf(&line, "printf '%s'; until [ -e %s/%d ]; do sleep 0.02; done\n", piece, gates, i)
	}
	j := b.pipe(line.String())
	tb := b.open(path(j))
	sizes := []int64{1, 4, 6, 13, 40, 52}
	for i, size := range sizes {
		polltest.Until(t, fmt.Sprintf("byte %d", size), func() bool { return j.Log().Stat().End >= size })
		must.Do(t, os.WriteFile(fmt.Sprintf("%s/%d", gates, i), nil, 0o600))
	}
	tb.shows("#output", "ä redlink")
	tb.until(`document.querySelector("#output a[href='https://example.org/']").innerText === "link"`)
	tb.until(`document.querySelector("#output span").innerText === "red"`)
}

// A job with a terminal is shown in a terminal of its size, whose font fits the width.
func TestTerminalOnThePage(t *testing.T) {
	b := newBench(t)
	j := b.terminal(`printf '\033[31mred\033[0m\033[3;5Hthere\n'; read x`)
	tb := b.open(path(j))
	tb.shows(".xterm-rows", "there")
	lines := value[string](tb, `[...document.querySelectorAll(".xterm-rows > div")].map(e => e.innerText.replaceAll("\u00a0", " ").trimEnd()).join("\n").trimEnd()`)
	if want := "red\n\n    there"; lines != want {
		t.Errorf("the terminal shows %q, want %q", lines, want)
	}
	if rows := value[int](tb, `document.querySelectorAll(".xterm-rows > div").length`); rows != 40 {
		t.Errorf("the terminal has %d rows", rows)
	}
	overflow := `document.querySelector("#output").scrollWidth - document.querySelector("#output").clientWidth`
	tb.until(overflow + ` <= 0`)
	font := func() float64 {
		return value[float64](tb, `parseFloat(getComputedStyle(document.querySelector(".xterm-rows")).fontSize)`)
	}
	wide := font()
	tb.resize(900, 700)
	tb.until(fmt.Sprintf(`parseFloat(getComputedStyle(document.querySelector(".xterm-rows")).fontSize) < %v`, wide))
	tb.resize(390, 700)
	tb.until(`parseFloat(getComputedStyle(document.querySelector(".xterm-rows")).fontSize) === 9`)
	tb.until(overflow + ` > 0`) // no smaller: it scrolls
	tb.resize(1280, 800)
	tb.until(fmt.Sprintf(`parseFloat(getComputedStyle(document.querySelector(".xterm-rows")).fontSize) === %v`, wide))
}

// killed leaves what a server with the job would leave if it were killed now, and returns the job's id there.
func (b *bench) killed(j *jobs.Job) (id string) {
	b.t.Helper()
	runs := must.Get(filepath.Glob(filepath.Join(b.state, "runs", "*", "*")))(b.t)
	id = "00000000" + j.ID()[8:]
	run := filepath.Join(filepath.Dir(runs[0]), id) // no process has a lock in it
	journal := filepath.Join(run, "journal.jsonl")
	must.Do(b.t, os.CopyFS(run, os.DirFS(runs[0])))
	must.Do(b.t, os.Rename(filepath.Join(run, j.ID()), filepath.Join(run, id)))
	text := must.Get(os.ReadFile(journal))(b.t)
	must.Do(b.t, os.WriteFile(journal, bytes.ReplaceAll(text, []byte(j.ID()), []byte(id)), 0o600))
	return id
}

// A job whose server was killed is shown in a terminal of the size that it had last, with the times that are
// known of it.
func TestTerminalOfAKilledServer(t *testing.T) {
	b := newBench(t)
	j := b.terminal(`printf '\033[2J\033[3;5Hthere\n'; read x`)
	jobstest.Asks(t, j)
	jobstest.Prints(t, j, "there")
	jobstest.Send(t, j, jobs.Input{Size: jobs.Size{Rows: 30, Cols: 90}})
	tb := b.open("/jobs/" + b.killed(j))
	tb.shows(".xterm-rows", "there")
	if rows := value[int](tb, `document.querySelectorAll(".xterm-rows > div").length`); rows != 30 {
		t.Errorf("the terminal has %d rows", rows)
	}
	facts := value[string](tb, `[...document.querySelectorAll(".facts dt")].map(e => e.innerText.toLowerCase()).join(" ")`)
	if want := "created last output ended by"; facts != want {
		t.Errorf("the facts are %q, want %q", facts, want)
	}
}

// picture is a PNG of one pixel, in Python.
const picture = `__import__("base64").b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")`

// What Python has shown is where it was shown: pictures as pictures, documents in frames in which nothing
// runs.
func TestFiguresOnThePage(t *testing.T) {
	b := newBench(t)
	j := b.python("lab", `
class Picture:
    def _repr_png_(self): return `+picture+`
class Document:
    def _repr_html_(self): return "<h1>Report</h1>" + "<p>line</p>" * 5000
print("before")
display(Picture())
print("between")
display(Document())
print("after")
6 * 7`)
	jobstest.End(t, j)
	check := func(tb *tab, output string) {
		t.Helper()
		tb.until(`document.querySelector("` + output + ` img")?.naturalWidth === 1`)
		tb.until(`document.querySelector("` + output + ` iframe")?.getAttribute("sandbox") === ""`)
		order := value[string](tb, `[...document.querySelectorAll("`+output+` .log > *")].map(e => e.querySelector("img") ? "picture" : e.querySelector("iframe") ? "document" : e.innerText.trim()).filter(Boolean).join(" ")`)
		if want := "before picture between document after 42"; order != want {
			t.Errorf("%s shows %s, want %s", output, order, want)
		}
	}
	tb := b.tab(1280, 500)
	tb.navigate(path(j))
	check(tb, "#output")
	atEnd := `document.querySelector("#output").scrollHeight - document.querySelector("#output").scrollTop - document.querySelector("#output").clientHeight < 2`
	tb.until(atEnd) // it follows the end, though the pictures have come later
	tb.wheel("#output", -5000)
	tb.click(".to-end")
	tb.until(atEnd + ` && document.querySelector(".to-end") === null`)
	tb.click(`header.job a[href="/sessions/lab"]`)
	check(tb, ".cell-output")
}

// A session shows its variables, and its jobs in order with code and output. The job that runs is live.
func TestSessionOnThePage(t *testing.T) {
	b := newBench(t)
	jobstest.End(t, b.python("lab", "xs = list(range(1000))\nname = 'bob'\nprint('one')"))
	jobstest.End(t, b.python("elsewhere", "other = 1"))
	tb := b.open("/sessions/lab")
	tb.shows("tbody tr", "name")
	for _, want := range []string{"xs\tlist\t1000\t", "name\tstr\t\t'bob'"} {
		tb.shows("tbody tr", want)
	}
	asks := b.python("lab", "y = input('Your name? ')\nprint('hello', y)")
	tb.shows("[data-cell]:last-child [data-answer]", "Your name?")
	tb.answer("alice")
	tb.shows("[data-cell]:last-child .cell-output", "hello alice")
	tb.shows("tbody tr", "y\tstr\t\t'alice'")
	jobstest.End(t, asks)
	cells := value[string](tb, `[...document.querySelectorAll("[data-cell]")].map(e => e.querySelector("pre").innerText.split("\n")[0]).join("; ")`)
	if want := "xs = list(range(1000)); y = input('Your name? ')"; cells != want {
		t.Errorf("the cells are %s, want %s", cells, want)
	}
}

// The code of a job, its ports as links, its receipt and the download are beside its output.
func TestFactsOnThePage(t *testing.T) {
	b := newBench(t)
	j := b.python("lab", `# Serves a page.
import socket
s = socket.create_server(("127.0.0.1", 0))
print("port", s.getsockname()[1], flush=True)
input("stop? ")
s.close()
total = 1`)
	port := strings.Fields(jobstest.Asks(t, j).Prompt + " " + jobstest.Output(j))[2]
	tb := b.open(path(j))
	tb.shows("header.job .code", "total = 1")
	tb.until(fmt.Sprintf(`document.querySelector(".facts a")?.href === "http://127.0.0.1:%s/"`, port))
	tb.answer("")
	tb.shows(".facts", "new variables")
	tb.shows(".facts", "by a person")
	download := value[string](tb, `fetch(document.querySelector("a[download]").href).then(r => r.text())`)
	if want := jobstest.Output(j); download != want {
		t.Errorf("the download is %q, want %q", download, want)
	}
}

// A job at a place has its place, what it waits for there, and a lost link, in the list and where it is open.
func TestPlaceOnThePage(t *testing.T) {
	b := newBench(t)
	var link atomic.Pointer[jobs.Link]
	link.Store(&jobs.Link{Queued: "Slurm job 812, Priority"})
	stop := make(chan struct{})
	j := jobstest.Start(t, b.Jobs(), jobs.Spec{Kind: jobs.Shell, Title: "train", Place: "gpu"}, awayJob{&link, stop})
	defer close(stop)
	tb := b.open(path(j))
	tb.shows(row(j)+" .where", "gpu")
	tb.shows(row(j)+" .away", "Queued: Slurm job 812, Priority")
	tb.shows("header.job .away", "Queued: Slurm job 812, Priority")
	link.Store(&jobs.Link{Where: "Slurm job 812, node n2"})
	tb.until(`document.querySelector(".away") === null`)
	tb.shows(".facts", "gpu (Slurm job 812, node n2)")
	lost := time.Now()
	link.Store(&jobs.Link{Where: "Slurm job 812, node n2", Lost: lost, Why: "<b>cut</b>", AsOf: lost, Input: "not delivered"})
	for _, at := range []string{row(j) + " .away", "header.job .away"} {
		tb.shows(at, "(<b>cut</b>); as of "+lost.Local().Format(time.TimeOnly))
		text := fmt.Sprintf("document.querySelector(%s).innerText", quote(at))
		before := value[string](tb, text)
		tb.until(text + " !== " + quote(before)) // for how long is counted
		tb.shows(at, "Link: lost for ")
	}
	tb.shows(".facts", "not delivered")
	link.Store(&jobs.Link{})
	tb.until(`document.querySelector(".away") === null`)
}

// An awayJob is a job at a place, without a place.
type awayJob struct {
	link *atomic.Pointer[jobs.Link]
	stop chan struct{}
}

func (a awayJob) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	p.SetLink(func() jobs.Link { return *a.link.Load() })
	p.Changed()
	<-a.stop
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun}}
}

// A search finds text in a log and in a terminal, and says which of how many places it shows.
func TestSearchOnThePage(t *testing.T) {
	b := newBench(t)
	for _, j := range []*jobs.Job{b.pipe("for i in $(seq 500); do echo line $i of 7; done"), b.terminal("for i in $(seq 500); do echo line $i of 7; done")} {
		jobstest.End(t, j)
		tb := b.open(path(j))
		tb.shows("#output", "line 500 of 7")
		tb.do(focus("[data-search]"))
		tb.keys("Line 3")
		tb.shows(".tools [role=status]", "111 of 111")
		tb.keys("\r")
		tb.shows(".tools [role=status]", "1 of 111")
		tb.shows(".to-end", "to the end") // it has left the end
		tb.click(".to-end")
		tb.until(`document.querySelector(".to-end") === null`)
	}
}

// In a terminal with very many places, a search says that there are more than it counts.
func TestSearchFindsMany(t *testing.T) {
	b := newBench(t)
	j := b.terminal("seq 2000; echo END")
	jobstest.End(t, j)
	tb := b.open(path(j))
	tb.shows("#output", "END")
	tb.do(focus("[data-search]"))
	tb.keys("1")
	tb.shows(".tools [role=status]", "1000 or more")
}

// What a job of a session wrote to stderr stays marked once it has ended.
func TestStderrOfASession(t *testing.T) {
	b := newBench(t)
	j := b.python("lab", `import sys
class Picture:
    def _repr_png_(self): return `+picture+`
print("out", flush=True)
print("oops", file=sys.stderr, flush=True)
display(Picture())
print("after")
6 * 7`)
	jobstest.End(t, j)
	tb := b.open("/sessions/lab")
	tb.shows(".cell-output .result", "42")
	lines := value[string](tb, `[...document.querySelectorAll(".cell-output .log > *")].map(e => (e.querySelector("img") ? "picture" : e.innerText.trim()) + (e.matches(".has-stderr") ? " marked" : "")).filter(Boolean).join("; ")`)
	if want := "out; oops marked; picture; after; 42"; lines != want {
		t.Errorf("the cell shows %s, want %s", lines, want)
	}
}

// A session opens at its end and follows it, though figures and the output of its cells come later. It stops when
// one scrolls up, until one is at the end again.
func TestSessionFollowsItsEnd(t *testing.T) {
	b := newBench(t)
	const code = "class Picture:\n    def _repr_png_(self): return " + picture + "\nfor i in range(20): print(i)\ndisplay(Picture())\nprint('end', "
	for i := range 8 {
		jobstest.End(t, b.python("lab", fmt.Sprintf("%s%d)", code, i)))
	}
	tb := b.open("/sessions/lab")
	const atEnd = `(e => e.scrollHeight > 2 * e.clientHeight && e.scrollHeight - e.scrollTop - e.clientHeight < 2)(document.querySelector(".notebook"))`
	tb.until(`[...document.querySelectorAll(".cell-output img")].filter(e => e.naturalWidth === 1).length === 8`)
	tb.shows(".cell-output", "end 7")
	tb.until(atEnd + ` && document.querySelector(".to-end") === null`)
	asks := b.python("lab", code+"input('Go on? '))")
	tb.shows(".cell-output", "end 7")
	tb.shows("[data-cell]:last-child [data-answer]", "Go on?")
	tb.until(atEnd)
	value[any](tb, `{window.live = document.querySelector("[data-cell]:last-child .log"); null}`)
	tb.answer("yes")
	tb.shows("[data-cell]:last-child .cell-output", "end yes")
	jobstest.End(t, asks)
	tb.until(atEnd)
	tb.shows("[data-cell]:last-child .status", "completed")
	tb.until(`document.querySelector("[data-cell]:last-child .log") !== live`) // it has been read again
	tb.wheel(".notebook", -20000)
	tb.shows(".to-end", "to the end")
	// A change of the layout can end the movement before the top.
	tb.until(`(document.querySelector(".notebook").scrollTop = 0, document.querySelector(".to-end") && document.querySelector(".notebook").scrollTop === 0)`)
	jobstest.End(t, b.python("lab", "print('unseen')"))
	tb.shows(".cell-output", "unseen")
	if at := value[int](tb, `document.querySelector(".notebook").scrollTop`); at != 0 {
		t.Errorf("a new job has scrolled to %d", at)
	}
	tb.click(".to-end")
	tb.until(atEnd + ` && document.querySelector(".to-end") === null`)
}

// A session shows its last 20 jobs. Its end is followed when the first of them makes room for a new one of the
// same height, and what one reads further up stays where it is.
func TestSessionOfManyJobs(t *testing.T) {
	b := newBench(t)
	// Ids of the same millisecond have no order, so a job takes longer.
	run := func(i int) {
		jobstest.End(t, b.python("lab", fmt.Sprintf("import time; time.sleep(.002); print('job %02d')", i)))
	}
	for i := range 20 {
		run(i)
	}
	tb := b.open("/sessions/lab")
	const atEnd = `(e => e.scrollHeight > 2 * e.clientHeight && e.scrollHeight - e.scrollTop - e.clientHeight < 2)(document.querySelector(".notebook"))`
	followed := func(last int) {
		t.Helper()
		tb.until(fmt.Sprintf(`[...document.querySelectorAll(".cell-output")].at(-1)?.textContent === "job %02d"`, last))
		tb.until(atEnd + ` && document.querySelector(".to-end") === null`)
	}
	followed(19)
	for i := 20; i < 26; i++ {
		run(i)
		followed(i)
	}
	if n := value[int](tb, `document.querySelectorAll("[data-cell]").length`); n != 20 {
		t.Errorf("%d jobs are shown", n)
	}
	tb.until(`(document.querySelector(".notebook").scrollTop = 0, document.querySelector(".to-end") && document.querySelector(".notebook").scrollTop === 0)`)
	tb.shows("[data-cell] .cell-output", "job 06")
	value[any](tb, `{window.read = [...document.querySelectorAll("[data-cell]")][0]; null}`)
	for i := 26; i < 29; i++ {
		run(i)
	}
	tb.until(`[...document.querySelectorAll(".cell-output")].at(-1)?.textContent === "job 28"`)
	if !value[bool](tb, `document.querySelectorAll("[data-cell]")[0] === read && document.querySelector(".notebook").scrollTop === 0`) {
		t.Error("what one reads has made room for new jobs")
	}
	tb.click(".notebook > div > button")
	tb.until(`document.querySelectorAll("[data-cell]").length === 29`)
	tb.click(".to-end")
	followed(28)
}

// The names of a session that are no data are shown when one asks for them, by the keyboard, too.
func TestOtherNamesOfASession(t *testing.T) {
	b := newBench(t)
	jobstest.End(t, b.python("lab", "import os, sys\ndef area(): pass\nclass Shape: pass\nx = 1"))
	tb := b.open("/sessions/lab")
	tb.shows("tbody tr", "x\tint")
	tb.shows("summary", "4 more: modules, functions and classes")
	visible := `document.querySelector("details .names").checkVisibility()`
	tb.until("!" + visible)
	tb.do(focus("summary"))
	tb.keys(kb.Enter)
	tb.until(visible)
	tb.shows("details .names", "os, sys, area, Shape")
	jobstest.End(t, b.python("none", "import json"))
	tb.navigate("/sessions/none")
	tb.shows(".variables", "No variables.")
	tb.click("summary")
	tb.shows("details .names", "json")
}

// A link to a job can have its id in small letters. The address has it in capitals then, as the list has.
func TestAddressInSmallLetters(t *testing.T) {
	b := newBench(t)
	j := b.pipe("echo found")
	tb := b.open("/")
	tb.shows(row(j), "echo found")
	tb.navigate(strings.ToLower(path(j)))
	tb.shows("#output", "found")
	tb.until(fmt.Sprintf(`location.pathname === %q && document.querySelector('%s').ariaCurrent === "page"`, path(j), row(j)))
}

// A job of a session that was queued is live once it runs.
func TestQueuedJobOfASession(t *testing.T) {
	b := newBench(t)
	first := b.python("lab", "input('First? ')")
	jobstest.Asks(t, first)
	second := b.python("lab", "print('second')\ninput('Second? ')")
	tb := b.open("/sessions/lab")
	tb.shows("[data-cell]:last-child .status", "queued")
	tb.shows("[data-cell]:first-child [data-answer]", "First?")
	tb.answer("1")
	tb.shows("[data-cell]:last-child .cell-output", "second")
	tb.answer("2")
	jobstest.EndsAs(t, second, "completed")
	tb.shows("[data-cell]:last-child .status", "completed")
}
