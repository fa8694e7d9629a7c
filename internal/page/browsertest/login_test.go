//go:build unix

package browsertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"asyncrepl/internal/mcp/httpserver"
	"asyncrepl/internal/page"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
)

// served makes the page of the bench that of a server over HTTP, which asks for the token "alice" unless a
// change of its configuration lets it do something else. The function that it returns takes the token out.
func (b *bench) served(changes ...func(*httpserver.Config)) (remove func()) {
	b.t.Helper()
	var mu sync.Mutex
	removed := false
	c := httpserver.Config{
		New: func(context.Context, httpserver.Caller) *httpserver.MCPServer { return nil },
		Find: func(bearer string) (httpserver.Caller, bool) {
			mu.Lock()
			defer mu.Unlock()
			return httpserver.Caller{Tenant: "default", Token: "name"}, bearer == "alice" && !removed
		},
		Page: &httpserver.Page{
			API:    func(httpserver.Caller) httpserver.Handler { return page.API(b.Engine) },
			Static: page.Static, Protect: page.Protect,
		},
	}
	for _, change := range changes {
		change(&c)
	}
	s := httpserver.New(c)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(b.t)
	ended := make(chan error)
	go func() { ended <- s.Serve(l) }() // owned by the test, which waits for it
	b.t.Cleanup(func() {
		s.Shutdown(context.Background())
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
	b.address = "http://" + l.Addr().String()
	return func() {
		mu.Lock()
		removed = true
		mu.Unlock()
		s.Revoke("name")
	}
}

// login types a token into the form.
func (tb *tab) login(token string) {
	tb.t.Helper()
	tb.until(`document.querySelector("input[name=token]") !== null`)
	tb.do(chromedp.SendKeys(chromedp.CSS("input[name=token]"), token+kb.Enter))
	polltest.Until(tb.t, "the answer to the form", func() bool {
		gone, err := chromedp.Run(tb.ctx, chromedp.Evaluate[bool](fmt.Sprintf(`(document.querySelector("input[name=token]")?.value ?? "") !== %q`, token)))
		return gone && err == nil // an error: the browser is between two pages
	})
}

// A person logs in with a token, by the form, and comes to the job of the link. The page answers the job
// and gets its output live. It says so when the token is removed.
func TestLogin(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	remove := b.served()
	j := b.terminal(`printf 'name? '; read a; echo "hello $a"`)
	tb := b.tab(1280, 800)
	tb.expect("401")
	tb.navigate(path(j))
	tb.until(`document.querySelector("input[name=token]") !== null`)
	tb.login("guess")
	tb.shows("[role=alert]", "This token is not known")
	tb.login("alice")
	tb.shows("body", "name?")
	if got := value[string](tb, "location.pathname"); got != path(j) {
		t.Errorf("the login leads to %s", got)
	}
	if got := value[string](tb, "document.cookie"); got != "" {
		t.Errorf("scripts read the cookie %q", got)
	}
	tb.answer("bob")
	tb.shows("#output", "hello bob")
	<-j.Done()
	if got := j.Record().Status; got != jobs.Completed {
		t.Errorf("the job is %s", got)
	}
	second := tb.another() // has the cookie
	second.expect("WebSocket", "401")
	second.navigate("/")
	second.until(fmt.Sprintf("document.querySelector('[data-job=%q]') !== null", j.ID()))
	tb.expect("WebSocket")
	remove()
	for _, tb := range []*tab{tb, second} {
		tb.form()
		if got := value[string](tb, "document.body.textContent"); strings.Contains(got, "name?") {
			t.Errorf("the job is still on the page: %s", got)
		}
	}
}

// A link of another site leads a browser that is logged in to the job, although it sends no cookie then.
func TestLinkOfAnotherSite(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.served()
	j := b.terminal("echo done")
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>chat</title><a id="link" href="%s%s">the job</a>`, b.address, path(j))
	}))
	t.Cleanup(chat.Close)
	tb := b.tab(1280, 800)
	tb.navigate("/")
	tb.login("alice")
	tb.until(fmt.Sprintf("document.querySelector('[data-job=%q]') !== null", j.ID()))
	tb.address = strings.Replace(chat.URL, "127.0.0.1", "localhost", 1) // another site
	tb.navigate("/")
	tb.click("#link")
	polltest.Until(t, "the job", func() bool {
		there, err := chromedp.Run(tb.ctx, chromedp.Evaluate[bool](fmt.Sprintf("location.pathname === %q && document.querySelector('#output') !== null", path(j))))
		return there && err == nil // an error: the browser is between two pages
	})
}

// A person logs out. All tabs of the browser show the form then, and nothing of the jobs.
func TestLogout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.served()
	j := b.terminal("echo the plan; read x")
	tb := b.tab(1280, 800)
	tb.navigate(path(j))
	tb.login("alice")
	tb.shows("#output", "the plan")
	second := tb.another()
	second.navigate("/")
	second.shows(row(j), "the plan")
	tb.expect("WebSocket", "401")
	second.expect("WebSocket", "401")
	tb.click("[data-logout]")
	for _, tb := range []*tab{tb, second} {
		tb.form()
		if got := value[string](tb, "document.body.textContent"); strings.Contains(got, "the plan") {
			t.Errorf("the job is still on the page: %s", got)
		}
		tb.navigate(path(j))
		tb.form()
	}
}

// form waits until the page is the form for the token.
func (tb *tab) form() {
	tb.t.Helper()
	polltest.Until(tb.t, "the form for the token", func() bool {
		there, err := chromedp.Run(tb.ctx, chromedp.Evaluate[bool](`document.querySelector("input[name=token]") !== null`))
		return there && err == nil // an error: the browser is between two pages
	})
}

// Only a login by the form can be ended on the page. A server without tokens has no logins, and the key of
// async-repl page would log in again.
func TestPageWithoutLogout(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*httpserver.Config){
		"without tokens":  func(c *httpserver.Config) { c.Find = nil },
		"async-repl page": func(c *httpserver.Config) { c.Page.LogsIn = true },
	} {
		b := newBench(t)
		b.served(change)
		j := b.pipe("echo end")
		tb := b.open("/#alice")
		tb.shows(row(j), "echo end")
		if value[bool](tb, `document.querySelector("[data-logout]") !== null`) {
			t.Errorf("%s: there is a button to log out", name)
		}
	}
}

// A browser without a login at async-repl page has no form, so the page says what to open. So does a page whose
// login has ended, and shows nothing of the jobs.
func TestKeyIsMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	remove := b.served(func(c *httpserver.Config) { c.Page.LogsIn = true })
	j := b.pipe("echo the plan")
	check := func(tb *tab) {
		t.Helper()
		polltest.Until(t, "what to do", func() bool {
			there, err := chromedp.Run(tb.ctx, chromedp.Evaluate[bool](`document.querySelector(".notice")?.innerText.includes("Open the address that async-repl page has printed, with its key")`))
			return there && err == nil // an error: the browser is between two pages
		})
		if value[bool](tb, `document.querySelector(".notice a") !== null`) {
			t.Error("the notice has a link, which leads nowhere")
		}
		if strings.Contains(tb.text(), "the plan") {
			t.Error("the job is still on the page")
		}
	}
	tb := b.tab(1280, 800)
	tb.expect("WebSocket", "401")
	tb.navigate("/")
	check(tb)
	known := b.open("/#alice")
	known.shows(row(j), "the plan")
	known.expect("WebSocket", "401")
	remove()
	check(known)
}
