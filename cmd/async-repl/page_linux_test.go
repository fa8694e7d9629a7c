package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/polltest"
)

// pageURL returns where a server serves its page, without the slash at the end. It waits until it does.
func (s *started) pageURL() (at string) {
	s.t.Helper()
	s.url()
	polltest.Until(s.t, "the address of the page", func() bool {
		_, rest, _ := strings.Cut(s.log.String(), "async-repl: page at ")
		line, _, whole := strings.Cut(rest, "/\n")
		at = line
		return whole
	})
	return at
}

// A browser is a client of the page: a browser without scripts.
type browser struct {
	t      *testing.T
	url    string
	client *http.Client
	cookie string
}

// openBrowser logs a browser in, unless there is no token.
func openBrowser(t *testing.T, s *started, token string) *browser {
	t.Helper()
	b := &browser{t: t, url: s.pageURL(), client: &http.Client{Transport: new(http.Transport)}}
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(b.client.CloseIdleConnections)
	if token == "" {
		return b
	}
	r := b.request("POST", "/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, text := b.send(r)
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Fatalf("%s: %s", res.Status, text)
	}
	b.cookie = res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
	return b
}

// request returns a request as the page makes it.
func (b *browser) request(method, path string, body io.Reader) *http.Request {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.cookie != "" {
		r.Header.Set("Cookie", b.cookie)
	}
	if method != http.MethodGet {
		r.Header.Set("Origin", b.url)
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (b *browser) send(r *http.Request) (*http.Response, string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	res, err := b.client.Do(r.WithContext(ctx))
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res, string(text)
}

// ask makes a request and returns the status and the text of its answer.
func (b *browser) ask(method, path, body string) (status int, text string) {
	b.t.Helper()
	res, text := b.send(b.request(method, path, strings.NewReader(body)))
	return res.StatusCode, text
}

// live opens the WebSocket of a tab.
func (b *browser) live() *websocket.Conn {
	b.t.Helper()
	h := http.Header{"Origin": {b.url}}
	if b.cookie != "" {
		h.Set("Cookie", b.cookie)
	}
	c, _, err := websocket.Dial(b.t.Context(), b.url+"/api/live", &websocket.DialOptions{HTTPClient: b.client, HTTPHeader: h})
	if err != nil {
		b.t.Fatal(err)
	}
	c.SetReadLimit(4 << 20)
	b.t.Cleanup(func() { c.CloseNow() })
	return c
}

// until reads messages of a tab until one holds text, and returns all.
func (b *browser) until(c *websocket.Conn, text string) (all string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	for {
		_, message, err := c.Read(ctx)
		if all += string(message); err != nil {
			b.t.Fatalf("%v, no %q in %s", err, text, all)
		}
		if strings.Contains(string(message), text) {
			return all
		}
	}
}

// Each tenant sees its own jobs on the page and answers them, whether it is in a sandbox of its own or
// not. A token that is removed ends what a browser has of it.
func TestServedPage(t *testing.T) {
	t.Parallel()
	for _, apart := range []bool{true, false} {
		t.Run(fmt.Sprintf("apart %t", apart), func(t *testing.T) {
			t.Parallel()
			f, log := newTokens(t, "alice", "bob"), filepath.Join(t.TempDir(), "access.log")
			s := prepareTenants(t, apart, f, "-page", "-access-log", log, "-log-level", "info")
			s.begin()
			alice, bob := s.as(t, f, "alice", client.Newer), s.as(t, f, "bob", client.Newer)
			const asks = `read -p "name? " a; echo "hello $a"`
			job := alice.do("execute_command_async", "command", asks, "wait_seconds", 60).Header("Job ID")
			bob.do("execute_command_async", "command", "echo of bob", "wait_seconds", 60)
			page, other := openBrowser(t, s, f.tokens["alice"]), openBrowser(t, s, f.tokens["bob"])
			if got := alice.do("server_status").Header("Page"); got != page.url+"/" {
				t.Errorf("the agent reads of the page at %q, which is at %s", got, page.url)
			}

			if status, text := page.ask("GET", "/jobs/"+job, ""); status != 200 || strings.Contains(text, `name="token"`) {
				t.Errorf("the page: %d %s", status, text)
			}
			if status, text := (&browser{t: t, url: page.url, client: page.client}).ask("GET", "/jobs/"+job, ""); status != 200 || !strings.Contains(text, `name="token"`) {
				t.Errorf("without a login: %d %s", status, text)
			}
			if status, text := page.ask("GET", "/api/jobs", ""); status != 200 || !strings.Contains(text, job) || strings.Contains(text, "of bob") {
				t.Errorf("alice's jobs: %d %s", status, text)
			}
			if status, text := other.ask("GET", "/api/jobs", ""); status != 200 || strings.Contains(text, job) || !strings.Contains(text, "of bob") {
				t.Errorf("bob's jobs: %d %s", status, text)
			}
			for _, path := range []string{"", "/output", "/display/1"} {
				if status, text := other.ask("GET", "/api/jobs/"+job+path, ""); status != 404 {
					t.Errorf("alice's job for bob: %d %s", status, text)
				}
			}
			for _, path := range []string{"/input", "/cancel"} {
				if status, text := other.ask("POST", "/api/jobs/"+job+path, `{}`); status != 404 {
					t.Errorf("alice's job for bob: %d %s", status, text)
				}
			}

			tab, others := page.live(), other.live()
			if all := other.until(others, `"complete":true`); strings.Contains(all, job) {
				t.Errorf("alice's job on bob's page: %s", all)
			}
			page.until(tab, job)
			if err := others.Write(t.Context(), websocket.MessageText, []byte(`{"op":"open","job":"`+job+`","cursor":0}`)); err != nil {
				t.Fatal(err)
			}
			other.until(others, `"gone":"`+job+`"`)
			for _, bad := range []struct {
				body   string
				status int
			}{
				{`no JSON`, 400}, {`{"unknown":1}`, 400}, {`{"text":"` + strings.Repeat("x", 65<<10) + `"}`, 413}, {`{"text":"` + strings.Repeat("x", 16<<20) + `"}`, 413},
			} {
				if status, text := page.ask("POST", "/api/jobs/"+job+"/input", bad.body); status != bad.status || text == "" {
					t.Errorf("%.40s: %d %s", bad.body, status, text)
				}
			}
			if status, text := page.ask("POST", "/api/jobs/"+job+"/input", `{"text":"`+secret+`\n"}`); status != 204 {
				t.Errorf("an answer: %d %s", status, text)
			}
			page.until(tab, `"completed"`)
			if got := alice.do("check_job_status", "job_id", job); !strings.Contains(string(got), "hello "+secret) || !strings.HasPrefix(got.Header("Answered"), "by a person") {
				t.Errorf("the agent reads %s", got)
			}
			if status, text := page.ask("POST", "/api/jobs/"+job+"/input", `{"text":"x"}`); status != 409 || text == "" {
				t.Errorf("an answer to a job that has ended: %d %s", status, text)
			}
			res, text := page.send(page.request("GET", "/api/jobs/"+job+"/output?cursor=0", nil))
			if got := res.Header.Get("Content-Disposition"); !strings.Contains(text, "hello "+secret) || got != `attachment; filename="`+job+`.log"` {
				t.Errorf("the output, %v: %s", res.Header, text)
			}
			if status, _ := page.ask("GET", "/api/jobs/"+job+"/output?cursor=999", ""); status != 400 {
				t.Errorf("a cursor beyond the end: %d", status)
			}

			const password = "correct-horse-4711"
			asked := alice.do("execute_command_async", "command", `read -s -p "password: " p; echo "${#p} long"`, "wait_seconds", 60).Header("Job ID")
			if status, text := page.ask("POST", "/api/jobs/"+asked+"/input", `{"text":"`+password+`\n","secret":true}`); status != 204 {
				t.Errorf("a password: %d %s", status, text)
			}
			reply := string(alice.prints(asked, "18 long"))
			for _, path := range []string{"/api/jobs", "/api/jobs/" + asked, "/api/jobs/" + asked + "/output"} {
				_, text := page.ask("GET", path, "")
				reply += text
			}
			if strings.Contains(reply, password) {
				t.Errorf("the password is in %s", reply)
			}

			f.write(t, f.lines(t)[1]) // bob's
			removed := time.Now()
			s.hangUp("tokens reread")
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			for err := error(nil); err == nil; { // until it ends
				if _, _, err = tab.Read(ctx); ctx.Err() != nil {
					t.Error("the WebSocket of a removed token has not ended")
				}
			}
			if status, text := page.ask("GET", "/api/jobs", ""); status != 401 || time.Since(removed) > 5*time.Second {
				t.Errorf("the cookie of a removed token: %d %s", status, text)
			}
			if status, _ := other.ask("GET", "/api/jobs", ""); status != 200 {
				t.Errorf("the cookie of another token: %d", status)
			}

			line := theAccess(t, log, func(l accessLine) bool { return l.Path == "/api/" && l.Status == 101 && l.Tenant == "alice" })
			if line.Method != "GET" || line.Result != "ok" || line.Era != "" {
				t.Errorf("%+v", line)
			}
			raw, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			for _, never := range []string{secret, password, f.tokens["alice"], f.tokens["bob"], page.cookie[strings.Index(page.cookie, "=")+1:], job + "/"} {
				if strings.Contains(string(raw), never) || strings.Contains(s.log.String(), never) {
					t.Errorf("%s stands in\n%s\n%s", never, raw, s.log)
				}
			}
			for text, stored := range map[string]bool{asked: true, password: false, f.tokens["alice"]: false} {
				files, _ := exec.Command("grep", "-rlF", text, s.setting("REPL_STATE_DIR"), alice.dir).Output() // an error: there are none
				if (len(files) > 0) != stored {
					t.Errorf("%s stands in %q", text, files)
				}
			}
		})
	}
}

// Without tokens the page needs no login. In a sandbox all that a job shows comes with headers that the
// process outside has chosen.
func TestServedPageWithoutTokens(t *testing.T) {
	t.Parallel()
	s := prepareTenants(t, true, tokenFile{}, "-page")
	s.begin()
	page := openBrowser(t, s, "")
	agent := s.as(t, tokenFile{}, "", client.Newer)
	r := agent.do("execute_python", "code", `
class Shown:
    def _repr_html_(self): return "<script>alert(1)</script>"
Shown()`, "wait_seconds", 60)
	job := r.Header("Job ID")
	var list struct{ Jobs []struct{ ID, Status string } }
	_, text := page.ask("GET", "/api/jobs", "")
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Jobs) != 1 || list.Jobs[0].ID != job {
		t.Fatalf("%v: %s", err, text)
	}
	for path, want := range map[string]string{
		"":           "application/json",
		"/output":    "application/octet-stream",
		"/display/1": "text/html",
		"/display/9": "text/plain; charset=utf-8",
	} {
		res, text := page.send(page.request("GET", "/api/jobs/"+job+path, nil))
		policy := res.Header.Get("Content-Security-Policy")
		if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, want) || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v %s", path, res.Header, text)
		}
		if strings.HasPrefix(policy, "sandbox;") != (path == "/output" || path == "/display/1") || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: %s", path, policy)
		}
	}
	for _, foreign := range []string{"http://evil.example", "null"} {
		r := page.request("POST", "/api/jobs/"+job+"/cancel", strings.NewReader("{}"))
		r.Header.Set("Origin", foreign)
		if res, text := page.send(r); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s %s", foreign, res.Status, text)
		}
	}
	if got := agent.do("server_status").Header("Page"); got != page.url+"/" {
		t.Errorf("the agent reads of the page at %q", got)
	}
	if names := strings.Fields(s.log.String()); !slices.Contains(names, page.url+"/") {
		t.Errorf("the server says %s", s.log)
	}
}
