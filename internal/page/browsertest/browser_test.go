//go:build unix

// Package browsertest tries the page in a real Chromium, with the real handlers and a real engine. Without
// a browser its tests are skipped. Begin with bench, which has the engine, and tab, which has the browser.
package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/page"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/pythontest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

func TestMain(m *testing.M) {
	code := processtest.Main(m)
	stopBrowser()
	os.Exit(code)
}

// stopBrowser ends the browser, if there is one, and waits for that.
var stopBrowser = func() {}

// browser starts the one browser of all tests. Its error says why there is none.
var browser = sync.OnceValues(func() (context.Context, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "browsertest")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1280, 800),
		chromedp.UserDataDir(filepath.Join(home, "profile")), chromedp.Env("HOME="+home), // it writes to both
		chromedp.NoSandbox) // CI is root, and a machine can forbid its user namespaces
	all, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(all)
	stopBrowser = func() {
		cancel()
		stop()
		os.RemoveAll(home)
	}
	return ctx, chromedp.Do(ctx) // this starts it
})

// A bench is an engine with real jobs, and a server with its page.
type bench struct {
	*engine.Engine
	t       testing.TB
	scope   engine.Scope
	state   string // the directory of its records
	address string // http://127.0.0.1:PORT
}

// inShort is the one test of a short run.
const inShort = "TestAnswersOnThePage"

// newBench starts an engine and its page. Tests that can't have a browser are skipped.
func newBench(t testing.TB) *bench {
	t.Helper()
	if testing.Short() && t.Name() != inShort {
		t.Skip("a short run has " + inShort)
	}
	if _, err := browser(); errors.Is(err, exec.ErrNotFound) {
		t.Skip("there is no browser: chromium is not on PATH")
	} else if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	e := must.Get(engine.New(engine.Config{
		Version: "test", Guard: processtest.Guard(t), GuardEnv: os.Environ(), Workspace: t.TempDir(), Shell: must.Get(exec.LookPath("sh"))(t),
		Python: pythontest.Bare(t, pythontest.Real(t)), StateDir: state,
		MaxJobs: 100, MaxSessions: 10, MaxOutput: 64 << 20, MaxState: 512 << 20, Log: slog.New(slog.DiscardHandler),
	}))(t)
	t.Cleanup(e.Close)
	b := &bench{Engine: e, t: t, scope: e.Scope(engine.Client{Env: os.Environ()}), state: state}
	server := httptest.NewServer(b.handler())
	t.Cleanup(server.Close)
	b.address = server.URL
	return b
}

// handler serves the page of the engine without a login, as a server does to a browser that has one.
func (b *bench) handler() http.Handler {
	h, end := b.endingHandler()
	b.t.Cleanup(end)
	return h
}

// endingHandler returns a handler, and a function that ends its live connections.
func (b *bench) endingHandler() (http.Handler, func()) {
	ctx, end := context.WithCancel(context.Background())
	api := page.API(b.Engine)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			api.ServeHTTP(w, r.WithContext(ctx))
		} else if r.URL.Path == "/login" {
			w.WriteHeader(http.StatusNoContent)
		} else if !page.Static(w, r, false) {
			http.NotFound(w, r)
		}
	}), end
}

// A runs is a runner made of a function.
type runs func(ctx context.Context)

func (f runs) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	f(ctx)
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
}

// job starts a job that f runs.
func (b *bench) job(title string, f runs) *jobs.Job {
	b.t.Helper()
	return jobstest.Start(b.t, b.Jobs(), jobs.Spec{Kind: jobs.Shell, Title: title}, f)
}

// python starts a job in a session.
func (b *bench) python(session, code string) *jobs.Job {
	b.t.Helper()
	s, _ := must.Get2(b.Open(b.scope, session))(b.t)
	title, _, _ := strings.Cut(strings.TrimSpace(code), "\n")
	return jobstest.Start(b.t, b.Jobs(), jobs.Spec{Kind: jobs.Python, Session: session, Title: title, Code: code}, s.Exec(code))
}

// terminal starts a command on a terminal, and pipe one on pipes.
func (b *bench) terminal(line string) *jobs.Job {
	return b.shell(engine.Command{Line: line, TTY: true})
}
func (b *bench) pipe(line string) *jobs.Job { return b.shell(engine.Command{Line: line}) }

func (b *bench) shell(c engine.Command) *jobs.Job {
	b.t.Helper()
	c.Dir = b.scope.Workspace
	run := must.Get(b.Shell(b.scope, c))(b.t)
	title, _, _ := strings.Cut(c.Line, "\n")
	return jobstest.Start(b.t, b.Jobs(), jobs.Spec{Kind: jobs.Shell, Title: title, Code: c.Line}, run)
}

// A tab is a tab of the browser, with cookies and a size of its own.
type tab struct {
	t       testing.TB
	ctx     context.Context
	address string

	mu     sync.Mutex
	errors []string // what its console has shown as errors
	// expects are words of errors that the browser itself writes, and that the test is about.
	expects []string
}

// open opens a path of the page. At the end of the test the tab is closed, and the test fails if its
// console has an error.
func (b *bench) open(path string) *tab {
	b.t.Helper()
	tb := b.tab(1280, 800)
	tb.navigate(path)
	return tb
}

// tab returns an empty tab of some size.
func (b *bench) tab(width, height int64) *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(must.Get(browser())(b.t), chromedp.WithNewBrowserContext())
	return newTab(b.t, ctx, cancel, b.address, width, height)
}

// another returns a second tab of the same browser, with the same cookies.
func (tb *tab) another() *tab {
	tb.t.Helper()
	ctx, cancel := chromedp.NewContext(tb.ctx)
	return newTab(tb.t, ctx, cancel, tb.address, 1280, 800)
}

func newTab(t testing.TB, ctx context.Context, cancel func(), address string, width, height int64) *tab {
	t.Helper()
	must.Do(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, height)))
	tb := &tab{t: t, ctx: ctx, address: address}
	messages := chromedp.Console(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { // owned by the test, which waits for it; ends with the tab
		for m, err := range messages {
			if err != nil {
				return
			}
			tb.note(m)
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
		for _, e := range tb.errors {
			t.Errorf("the console says: %s", e)
		}
	})
	return tb
}

func (tb *tab) note(m chromedp.ConsoleMessage) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	bad := m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleException || m.Type == chromedp.ConsoleWarning
	if bad && !slices.ContainsFunc(tb.expects, func(words string) bool { return strings.Contains(m.Text, words) }) {
		tb.errors = append(tb.errors, m.Text+" "+m.URL)
	}
}

// expect lets the console have errors with some words from now on.
func (tb *tab) expect(words ...string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.expects = append(tb.expects, words...)
}

func (tb *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, polltest.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		tb.t.Fatalf("%v\n%s", err, tb.text())
	}
}

func (tb *tab) navigate(path string) {
	tb.t.Helper()
	tb.do(chromedp.Navigate(tb.address + path))
}

// value evaluates an expression in a tab.
func value[T any](tb *tab, expression string) T {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, polltest.Patience)
	defer cancel()
	strict := func(p *runtime.EvaluateParams) { p.AllowUnsafeEvalBlockedByCSP = new(bool) } // as the page's own scripts
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise, strict))
	if err != nil {
		tb.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text returns what a person reads.
func (tb *tab) text() string {
	text, _ := chromedp.Run(tb.ctx, chromedp.Evaluate[string](`document.body.innerText`))
	return text
}

// until waits until an expression is true.
func (tb *tab) until(expression string) {
	tb.t.Helper()
	polltest.Check(tb.t, func() error {
		if value[bool](tb, "Boolean("+expression+")") {
			return nil
		}
		return fmt.Errorf("never true: %s\n%s", expression, tb.text())
	})
}

// shows waits until an element has a text.
func (tb *tab) shows(selector, text string) {
	tb.t.Helper()
	tb.until(fmt.Sprintf(`[...document.querySelectorAll(%s)].some(e => e.innerText.replaceAll("\u00a0", " ").includes(%s))`, quote(selector), quote(text)))
}

// hides waits until no element has a text.
func (tb *tab) hides(selector, text string) {
	tb.t.Helper()
	tb.until(fmt.Sprintf(`![...document.querySelectorAll(%s)].some(e => e.innerText.includes(%s))`, quote(selector), quote(text)))
}

// quote returns a string of JavaScript.
func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// keys presses keys, each of which goes to what has the focus. Each is one event with its text, as a keyboard
// makes it: a page that takes the key gets no character after it.
func (tb *tab) keys(keys string, modifiers ...chromedp.Modifier) {
	tb.t.Helper()
	held := int64(0)
	for _, m := range modifiers {
		held |= int64(m)
	}
	for _, r := range keys {
		k := kb.Keys[r]
		p := input.DispatchKeyEventParams{Type: kb.KeyDown, Key: k.Key, Code: k.Code, WindowsVirtualKeyCode: k.Windows, Modifiers: held}
		if k.Print && held == 0 {
			p.Text = k.Text
		}
		if k.Shift {
			p.Modifiers |= int64(chromedp.ModifierShift)
		}
		tb.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, p); err != nil {
				return err
			}
			p.Type, p.Text = kb.KeyUp, ""
			_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, p)
			return err
		}))
	}
}

// wheel turns the wheel of the mouse over the lower edge of an element.
func (tb *tab) wheel(selector string, by float64) {
	tb.t.Helper()
	type point struct{ X, Y float64 }
	at := value[point](tb, fmt.Sprintf(`(r => ({X: r.x + r.width / 2, Y: r.bottom - 20}))(document.querySelector(%s).getBoundingClientRect())`, quote(selector)))
	// The protocol takes no zero, so it turns to the side, too.
	tb.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseWheel, at.X, at.Y, func(p *input.DispatchMouseEventParams) { p.DeltaX, p.DeltaY = 1, by }))
}

func (tb *tab) click(selector string) {
	tb.t.Helper()
	tb.do(chromedp.Click(chromedp.CSS(selector)))
}

// answer waits for a question and answers it.
func (tb *tab) answer(text string) {
	tb.t.Helper()
	tb.until(`document.querySelector("[data-answer] input") !== null`)
	tb.do(chromedp.SendKeys(chromedp.CSS("[data-answer] input"), text+kb.Enter))
}

// sees sets the scheme of colours.
func (tb *tab) sees(scheme string) {
	tb.t.Helper()
	tb.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// picture writes a picture of the tab.
func (tb *tab) picture(path string) {
	tb.t.Helper()
	must.Do(tb.t, os.WriteFile(path, must.Get(chromedp.Run(tb.ctx, chromedp.CaptureScreenshot()))(tb.t), 0o644))
}

// lines returns the lines of the output, as a person reads them.
func (tb *tab) lines() []string {
	tb.t.Helper()
	return strings.Split(value[string](tb, `(document.querySelector("#output")?.innerText ?? "").replaceAll("\u00a0", " ").trim()`), "\n")
}

// path returns the address of a job on the page.
func path(j *jobs.Job) string { return "/jobs/" + j.ID() }

// row returns the selector of a job's row.
func row(j *jobs.Job) string { return fmt.Sprintf("[data-job=%q]", j.ID()) }
