package httpserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"asyncrepl/internal/serve/metrics"
	"asyncrepl/internal/serve/relay"
	"asyncrepl/internal/test/polltest"
)

// aPage is a page whose API says who asks, and answers each message of a WebSocket with the same.
func aPage() *Page {
	return &Page{
		API: func(c Caller) Handler {
			if c.Tenant == "gone" {
				return nil
			}
			mux := http.NewServeMux()
			mux.HandleFunc("GET /api/jobs", func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, "jobs of %s", c.Tenant)
				for _, name := range []string{"Cookie", "Origin"} {
					if r.Header.Get(name) != "" {
						fmt.Fprint(w, " and its ", name)
					}
				}
			})
			mux.HandleFunc("POST /api/jobs/J/input", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
			mux.HandleFunc("GET /api/live", func(w http.ResponseWriter, r *http.Request) {
				conn, err := websocket.Accept(w, r, nil)
				if err != nil {
					return
				}
				defer conn.CloseNow()
				for {
					kind, text, err := conn.Read(r.Context())
					if err != nil || conn.Write(r.Context(), kind, slices.Concat([]byte(c.Tenant+": "), text)) != nil {
						return
					}
				}
			})
			return mux
		},
		Static: func(w http.ResponseWriter, r *http.Request, _ bool) bool {
			switch {
			case isPage(r.URL.Path):
				io.WriteString(w, "the page")
			case r.URL.Path == "/app.mjs":
				io.WriteString(w, "the script")
			default:
				return false
			}
			return true
		},
		Protect: func(h http.Header) { h.Set("Content-Security-Policy", "default-src 'none'") },
		Display: func(h http.Header, kind, name string) { h.Set("Content-Type", "display "+kind+" "+name) },
	}
}

// tenantsByToken finds the tokens alice-1, alice-2 and bob-1, whose names are their ends, except those
// that were removed.
type tenantsByToken struct {
	mu      sync.Mutex
	removed map[string]bool
}

func (f *tenantsByToken) find(bearer string) (Caller, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains([]string{"alice-1", "alice-2", "bob-1"}, bearer) || f.removed[bearer] {
		return Caller{}, false
	}
	tenant, _, _ := strings.Cut(bearer, "-")
	return Caller{Tenant: tenant, Token: "name of " + bearer}, true
}

// remove takes a token out, as a file of tokens that is read again does.
func (f *tenantsByToken) remove(s *Server, bearer string) {
	f.mu.Lock()
	f.removed = map[string]bool{bearer: true}
	f.mu.Unlock()
	s.Revoke("name of " + bearer)
}

// A pageServer is a server with a page, at a real port.
type pageServer struct {
	*Server
	t      *testing.T
	url    string
	end    func()
	client *http.Client
}

func servingPage(t *testing.T, c Config) *pageServer {
	t.Helper()
	if c.Page == nil {
		c.Page = aPage()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	p := &pageServer{t: t, url: "http://" + l.Addr().String(), client: &http.Client{
		Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if c.TLS != nil {
		p.url = "https://" + l.Addr().String()
	}
	p.Server = New(withTools(nil, c))
	served := make(chan error)
	go func() { served <- p.Serve(l) }() // owned by the test, which waits for it
	p.end = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		p.Shutdown(context.Background())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.end)
	return p
}

// An ask is a request to a page. Its headers come in pairs.
type ask struct {
	method, path string
	headers      []string
	form         url.Values
}

// do makes a request, and returns its answer with the text.
func (p *pageServer) do(a ask) (*http.Response, string) {
	p.t.Helper()
	var body io.Reader
	if a.form != nil {
		body = strings.NewReader(a.form.Encode())
	}
	r, err := http.NewRequestWithContext(p.t.Context(), a.method, p.url+a.path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	if a.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for pair := range slices.Chunk(a.headers, 2) {
		if pair[0] == "Host" {
			r.Host = pair[1]
		} else {
			r.Header.Add(pair[0], pair[1])
		}
	}
	res, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res, string(text)
}

// login logs a browser in, and returns its cookie as it sends it.
func (p *pageServer) login(token string, headers ...string) (cookie string) {
	p.t.Helper()
	res, text := p.do(ask{"POST", "/login", append(headers, "Origin", p.url), url.Values{"token": {token}}})
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		p.t.Fatalf("%s: %s", res.Status, text)
	}
	return res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
}

// status returns the status of a request without a form.
func (p *pageServer) status(method, path string, headers ...string) int {
	p.t.Helper()
	res, _ := p.do(ask{method: method, path: path, headers: headers})
	return res.StatusCode
}

// dial opens a WebSocket. If there is none, the answer says why.
func (p *pageServer) dial(headers ...string) (*websocket.Conn, *http.Response) {
	p.t.Helper()
	h := http.Header{}
	for pair := range slices.Chunk(headers, 2) {
		h.Add(pair[0], pair[1])
	}
	c, res, err := websocket.Dial(p.t.Context(), p.url+"/api/live", &websocket.DialOptions{HTTPClient: p.client, HTTPHeader: h})
	if err == nil {
		p.t.Cleanup(func() { c.CloseNow() })
	} else if res == nil {
		p.t.Fatal(err)
	}
	return c, res
}

// open opens a WebSocket that the server answers as a tenant's.
func (p *pageServer) open(tenant string, headers ...string) *websocket.Conn {
	p.t.Helper()
	c, res := p.dial(headers...)
	if c == nil {
		p.t.Fatal(res.Status)
	}
	if err := c.Write(p.t.Context(), websocket.MessageText, []byte("x")); err != nil {
		p.t.Fatal(err)
	}
	if _, text, err := c.Read(p.t.Context()); err != nil || string(text) != tenant+": x" {
		p.t.Fatalf("%v, %q", err, text)
	}
	return c
}

// endsSoon checks that a WebSocket ends within the time that the end of a token may take.
func endsSoon(t *testing.T, c *websocket.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, _, err := c.Read(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the WebSocket has not ended: %v", err)
	}
}

// A browser without a login gets a form, which leads to where the browser was going and nowhere else.
func TestPageAsksForAToken(t *testing.T) {
	t.Parallel()
	p := servingPage(t, Config{Find: new(tenantsByToken).find})
	for _, path := range []string{"/", "/jobs/J%22%3E", "/sessions/lab", "/login"} {
		res, text := p.do(ask{method: "GET", path: path})
		name, _ := url.PathUnescape(path)
		if res.StatusCode != 200 || !strings.Contains(text, `name="token"`) || strings.Contains(text, "the page") || strings.Contains(text, `J">`) {
			t.Errorf("%s: %s %s", path, res.Status, text)
		}
		// The form would have the Origin "null" otherwise.
		if got := res.Header.Get("Referrer-Policy"); got != "same-origin" || res.Header.Get("Content-Security-Policy") == "" || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, res.Header)
		}
		if name == "/login" {
			name = "/"
		}
		res, _ = p.do(ask{"POST", "/login", []string{"Origin", p.url}, url.Values{"token": {" alice-1\n"}, "to": {name}}})
		if got := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || got != path && path != "/login" {
			t.Errorf("%s leads to %s, %s", path, got, res.Status)
		}
	}
	if res, text := p.do(ask{method: "GET", path: "/app.mjs"}); text != "the script" || res.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("the script: %s %s", res.Status, text)
	}
	for _, to := range []string{"//evil.example/", "https://evil.example/", "/jobs/../..//evil.example", `/jobs/../\evil.example`, "", "/mcp"} {
		res, _ := p.do(ask{"POST", "/login", []string{"Origin", p.url}, url.Values{"token": {"alice-1"}, "to": {to}}})
		at, err := res.Location()
		if err != nil || "http://"+at.Host != p.url {
			t.Errorf("%q leads to %v, %v", to, at, err)
		}
	}
	res, text := p.do(ask{"POST", "/login", []string{"Origin", p.url}, url.Values{"token": {"guess"}}})
	if res.StatusCode != http.StatusUnauthorized || len(res.Cookies()) > 0 || !strings.Contains(text, "not known") || !strings.Contains(text, `name="token"`) || strings.Contains(text, "guess") {
		t.Errorf("a wrong token: %s %s", res.Status, text)
	}
	cookie := p.login("alice-1")
	for _, headers := range [][]string{{"Cookie", cookie}, {"Authorization", "Bearer alice-1"}} {
		if res, text := p.do(ask{"GET", "/jobs/J", headers, nil}); res.StatusCode != 200 || text != "the page" {
			t.Errorf("%v: %s %s", headers, res.Status, text)
		}
	}
	// A browser that follows a link of another site sends the cookie when it loads the form again.
	if res, _ := p.do(ask{"GET", "/jobs/J", []string{"Sec-Fetch-Site", "cross-site"}, nil}); res.Header.Get("Refresh") != "0" {
		t.Errorf("%v", res.Header)
	}
}

// A page that finds the token in its own address is served without a login. Its API is not.
func TestPageThatLogsIn(t *testing.T) {
	t.Parallel()
	page := aPage()
	page.LogsIn = true
	p := servingPage(t, Config{Page: page, Find: new(tenantsByToken).find})
	for path, want := range map[string]string{"/": "the page", "/jobs/J": "the page", "/api/jobs": "a token is needed"} {
		if _, text := p.do(ask{method: "GET", path: path}); !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
	if _, text := p.do(ask{"GET", "/api/jobs", []string{"Cookie", p.login("bob-1")}, nil}); text != "jobs of bob" {
		t.Error(text)
	}
}

// The cookie of a login is of this server alone, and no script or other site gets it.
func TestCookieOfALogin(t *testing.T) {
	t.Parallel()
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS() // this gives it a certificate
	cert.Close()
	values := make(map[string]bool)
	for name, test := range map[string]struct {
		config Config
		origin string
		secure bool
	}{
		"plain":               {},
		"TLS":                 {config: Config{TLS: &tls.Config{Certificates: cert.TLS.Certificates}}, secure: true},
		"TLS by a proxy":      {config: Config{PublicURL: "https://repl.example"}, origin: "https://repl.example", secure: true},
		"beside such a proxy": {config: Config{PublicURL: "https://repl.example"}},
	} {
		test.config.Find = new(tenantsByToken).find
		p := servingPage(t, test.config)
		res, text := p.do(ask{"POST", "/login", []string{"Origin", cmp.Or(test.origin, p.url)}, url.Values{"token": {"alice-1"}}})
		if len(res.Cookies()) != 1 {
			t.Fatalf("%s: %s %s", name, res.Status, text)
		}
		c := res.Cookies()[0]
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(strings.TrimPrefix(p.url, "http://"), "https://"))
		if c.Name != "async-repl-"+port || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.MaxAge != 12*60*60 || c.Domain != "" || c.Secure != test.secure {
			t.Errorf("%s: %s", name, c)
		}
		if len(c.Value) < 26 || values[c.Value] || strings.Contains(c.Value, "alice") {
			t.Errorf("%s: the value %q is not random", name, c.Value)
		}
		values[c.Value] = true
	}
}

// What may not ask gets a clear word, and the right status.
func TestPageRefuses(t *testing.T) {
	t.Parallel()
	find := new(tenantsByToken).find
	files := func(Caller) Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "a file") })
	}
	p := servingPage(t, Config{Find: find, Files: files, Origins: []string{"https://app.example"}, PublicURL: "https://repl.example"})
	other := servingPage(t, Config{Find: find})
	open := servingPage(t, Config{}) // without tokens
	cookie, port := p.login("alice-1"), p.url[strings.LastIndex(p.url, ":")+1:]
	name, value, _ := strings.Cut(cookie, "=")
	foreign := strings.Replace(other.login("alice-1"), "async-repl-"+other.url[strings.LastIndex(other.url, ":")+1:], name, 1)
	out := p.login("bob-1")
	p.status("POST", "/logout", "Cookie", out, "Origin", p.url)
	input := "/api/jobs/J/input"
	for _, test := range []struct {
		on           *pageServer
		method, path string
		headers      string // "name: value" with " | " between
		status       int
		says         string
	}{
		{p, "GET", "/api/jobs", "", 401, "a token is needed"},
		{p, "GET", "/api/jobs", "Cookie: " + name + "=" + value[1:], 401, "this login has ended"},
		{p, "GET", "/api/jobs", "Cookie: " + name + "=", 401, "this login has ended"},
		{p, "GET", "/api/jobs", "Cookie: " + name + "=alice-1", 401, "this login has ended"},
		{p, "GET", "/api/jobs", "Cookie: " + foreign, 401, "this login has ended"},
		{p, "GET", "/api/jobs", "Cookie: " + out, 401, "this login has ended"},
		{p, "GET", "/api/jobs", "Cookie: async-repl=" + value, 401, "a token is needed"},
		{p, "GET", "/api/jobs", "Cookie: " + cookie, 200, "jobs of alice"},
		{p, "GET", "/api/jobs", "Cookie: " + foreign + "; " + cookie, 200, "jobs of alice"},
		{p, "GET", "/api/jobs", "Cookie: " + cookie + " | Authorization: Bearer guess", 401, "not known"},
		{p, "GET", "/api/jobs", "Cookie: " + cookie + " | Authorization: Bearer bob-1", 200, "jobs of bob"},
		{p, "GET", "/api/jobs", "Authorization: Bearer alice-2", 200, "jobs of alice"},
		{p, "GET", "/api/jobs", "Cookie: " + cookie + " | Sec-Fetch-Site: same-site", 403, "other sites"},
		{p, "GET", "/api/jobs", "Cookie: " + cookie + " | Sec-Fetch-Site: cross-site", 403, "other sites"},
		{p, "GET", "/api/jobs", "Cookie: " + cookie + " | Sec-Fetch-Site: same-origin", 200, "jobs of alice"},
		{p, "GET", "/api/jobs", "Cookie: " + cookie + " | Origin: http://127.0.0.1:1", 403, "not allowed"},
		{p, "GET", "/api/jobs", "Cookie: " + cookie + " | Host: evil.example", 403, "not a name of this server"},
		{p, "GET", "/", "Host: evil.example", 403, "not a name of this server"},
		{p, "GET", "/app.mjs", "Host: evil.example:" + port, 403, "not a name of this server"},

		{p, "POST", input, "", 401, "a token is needed"},
		{p, "POST", input, "Cookie: " + cookie, 403, "its Origin is missing"},
		{p, "POST", input, "Cookie: " + cookie + " | Origin: null", 403, "is another one"},
		{p, "POST", input, "Cookie: " + cookie + " | Origin: http://127.0.0.1:1", 403, "is another one"},
		{p, "POST", input, "Cookie: " + cookie + " | Origin: http://localhost:" + port, 403, "is another one"},
		{p, "POST", input, "Cookie: " + cookie + " | Origin: https://app.example", 403, "is another one"},
		{p, "POST", input, "Cookie: " + cookie + " | Origin: " + p.url + " | Origin: " + p.url, 403, "is another one"},
		{p, "POST", input, "Cookie: " + cookie + " | Origin: " + p.url, 204, ""},
		{p, "POST", input, "Cookie: " + cookie + " | Origin: https://repl.example", 204, ""},
		{p, "DELETE", "/api/jobs", "Cookie: " + cookie, 403, "its Origin is missing"},
		{p, "POST", input, "Authorization: Bearer alice-1", 204, ""},
		{p, "POST", input, "Authorization: Bearer alice-1 | Origin: " + p.url, 204, ""},
		{p, "POST", input, "Authorization: Bearer alice-1 | Origin: https://app.example", 204, ""},
		{p, "POST", input, "Authorization: Bearer alice-1 | Origin: http://evil.example", 403, "not allowed"},
		{p, "POST", input, "Authorization: Bearer alice-1 | Origin: null", 403, "not allowed"},
		{p, "POST", input, "Authorization: Bearer alice-1 | Host: evil.example", 403, "not a name of this server"},

		{p, "POST", "/login", "", 403, "its Origin is missing"},
		{p, "POST", "/login", "Origin: https://app.example", 403, "is another one"},
		{p, "POST", "/login", "Origin: http://evil.example", 403, "not allowed"},
		{p, "POST", "/login", "Origin: " + p.url, 401, "This token is not known"},
		{p, "POST", "/logout", "Cookie: " + cookie, 403, "its Origin is missing"},
		{p, "POST", "/logout", "Cookie: " + cookie + " | Origin: https://app.example", 403, "is another one"},
		{p, "GET", "/logout", "Cookie: " + cookie, 404, "no such page"},
		{p, "POST", "/", "Cookie: " + cookie + " | Origin: " + p.url, 405, "can only be read"},
		{p, "GET", "/secret", "Cookie: " + cookie, 404, "no such page"},

		// A cookie is no token for anything else.
		{p, "POST", "/mcp", "Cookie: " + cookie + " | Origin: " + p.url, 401, "a token is needed"},
		{p, "GET", "/mcp", "Cookie: " + cookie, 401, "a token is needed"},
		{p, "GET", "/files/x", "Cookie: " + cookie, 401, "a token is needed"},
		{p, "GET", "/files/x", "Authorization: Bearer alice-1", 200, "a file"},

		{open, "GET", "/", "", 200, "the page"},
		{open, "GET", "/api/jobs", "", 200, "jobs of default"},
		{open, "POST", input, "", 204, ""},
		{open, "POST", input, "Origin: " + open.url, 204, ""},
		{open, "POST", input, "Origin: http://evil.example", 403, "not allowed"},
		{open, "POST", input, "Host: evil.example", 403, "not a name of this server"},
		{open, "GET", "/api/jobs", "Sec-Fetch-Site: cross-site", 403, "other sites"},
		{open, "POST", "/login", "Origin: " + open.url, 303, ""},
	} {
		a := ask{method: test.method, path: test.path}
		if test.path == "/login" {
			a.form = url.Values{"token": {"guess"}}
		}
		if test.headers != "" {
			for line := range strings.SplitSeq(test.headers, " | ") {
				name, value, _ := strings.Cut(line, ": ")
				a.headers = append(a.headers, name, value)
			}
		}
		res, text := test.on.do(a)
		if res.StatusCode != test.status || !strings.Contains(text, test.says) || strings.Contains(text, " and its ") {
			t.Errorf("%s %s %q: %s %s", test.method, test.path, test.headers, res.Status, text)
		}
		if test.path != "/mcp" && test.path != "/files/x" && res.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s %s %q is not protected: %v", test.method, test.path, test.headers, res.Header)
		}
	}
	if res, text := p.do(ask{"POST", "/login", []string{"Origin", p.url}, url.Values{"token": {strings.Repeat("x", loginSize)}}}); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a long token: %s %s", res.Status, text)
	}
}

// A WebSocket by cookie needs our own Origin; one by token needs none, and no foreign one.
func TestWebSocketIsRefused(t *testing.T) {
	t.Parallel()
	p := servingPage(t, Config{Find: new(tenantsByToken).find, PublicURL: "https://repl.example"})
	cookie := p.login("alice-1")
	for _, test := range []struct {
		headers []string
		status  int
	}{
		{nil, 401},
		{[]string{"Cookie", cookie[:len(cookie)-1]}, 401},
		{[]string{"Cookie", cookie}, 403},
		{[]string{"Cookie", cookie, "Origin", "http://127.0.0.1:1"}, 403},
		{[]string{"Cookie", cookie, "Origin", "null"}, 403},
		{[]string{"Cookie", cookie, "Origin", p.url, "Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"Authorization", "Bearer guess"}, 401},
		{[]string{"Authorization", "Bearer bob-1", "Origin", "http://evil.example"}, 403},
	} {
		if c, res := p.dial(test.headers...); c != nil || res.StatusCode != test.status {
			t.Errorf("%v: %s", test.headers, res.Status)
		}
	}
	p.open("alice", "Cookie", cookie, "Origin", p.url)
	p.open("alice", "Cookie", cookie, "Origin", "https://repl.example") // a proxy that passes on no Host
	p.open("bob", "Authorization", "Bearer bob-1")
	p.open("bob", "Authorization", "Bearer bob-1", "Cookie", cookie, "Origin", p.url)
	open := servingPage(t, Config{})
	open.open("default", "Origin", open.url)
	open.open("default")
	if c, res := open.dial("Origin", "http://evil.example"); c != nil {
		t.Error(res.Status)
	}
}

// A token that is removed ends its logins and their WebSockets, and those of the token itself. What
// another token of the tenant has stays.
func TestRemovedTokenEndsItsLogins(t *testing.T) {
	t.Parallel()
	find := new(tenantsByToken)
	p := servingPage(t, Config{Find: find.find})
	cookie, kept := p.login("alice-1"), p.login("alice-2")
	ends := []*websocket.Conn{p.open("alice", "Cookie", cookie, "Origin", p.url), p.open("alice", "Authorization", "Bearer alice-1")}
	stays := p.open("alice", "Cookie", kept, "Origin", p.url)
	find.remove(p.Server, "alice-1")
	for _, c := range ends {
		endsSoon(t, c)
	}
	if got := p.status("GET", "/api/jobs", "Cookie", cookie); got != 401 {
		t.Errorf("the cookie of a removed token: %d", got)
	}
	if _, text := p.do(ask{"GET", "/", []string{"Cookie", cookie}, nil}); !strings.Contains(text, `name="token"`) {
		t.Errorf("the page of a removed token: %s", text)
	}
	if got := p.status("GET", "/api/jobs", "Cookie", kept); got != 200 {
		t.Errorf("the cookie of another token: %d", got)
	}
	if err := stays.Ping(stays.CloseRead(t.Context())); err != nil {
		t.Errorf("the WebSocket of another token: %v", err)
	}
}

// A token that is removed while a browser logs in leaves no login.
func TestTokenRemovedDuringALogin(t *testing.T) {
	t.Parallel()
	found, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	find := new(tenantsByToken)
	p := servingPage(t, Config{Find: func(bearer string) (Caller, bool) {
		who, ok := find.find(bearer)
		once.Do(func() {
			close(found)
			<-goOn
		})
		return who, ok
	}})
	status := make(chan int)
	go func() { // owned by the test, which waits for it
		res, _ := p.do(ask{"POST", "/login", []string{"Origin", p.url}, url.Values{"token": {"alice-1"}}})
		status <- res.StatusCode
	}()
	<-found
	find.remove(p.Server, "alice-1")
	close(goOn)
	if got := <-status; got != http.StatusUnauthorized {
		t.Errorf("the login: %d", got)
	}
}

// A logout ends its login and the WebSockets of that, and no other. The server ends all.
func TestLoginsEnd(t *testing.T) {
	t.Parallel()
	p := servingPage(t, Config{Find: new(tenantsByToken).find})
	cookie, kept := p.login("alice-1"), p.login("alice-1")
	ends, stays := p.open("alice", "Cookie", cookie, "Origin", p.url), p.open("alice", "Cookie", kept, "Origin", p.url)
	res, _ := p.do(ask{"POST", "/logout", []string{"Cookie", cookie, "Origin", p.url}, nil})
	if c := res.Cookies(); res.StatusCode != http.StatusSeeOther || len(c) != 1 || c[0].MaxAge >= 0 || c[0].Value != "" {
		t.Errorf("%s, %v", res.Status, c)
	}
	endsSoon(t, ends)
	if got := p.status("GET", "/api/jobs", "Cookie", kept); got != 200 {
		t.Errorf("another login: %d", got)
	}
	again := p.login("alice-1", "Cookie", kept) // in the same browser
	endsSoon(t, stays)
	if got := p.status("GET", "/api/jobs", "Cookie", kept); got != 401 {
		t.Errorf("the login before: %d", got)
	}
	last := p.open("alice", "Cookie", again, "Origin", p.url)
	p.end()
	endsSoon(t, last)
}

// A login ends after 12 hours, with its WebSockets. One token has 1,000 logins at most, and takes none
// of another.
func TestLoginsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Find: new(tenantsByToken).find, Page: aPage()})
		defer s.Shutdown(context.Background())
		ask := func(cookie string) int {
			r := httptest.NewRequest("GET", "http://localhost/api/jobs", nil)
			r.Header.Set("Cookie", cookie)
			w := httptest.NewRecorder()
			s.http.Handler.ServeHTTP(w, r)
			return w.Code
		}
		login := func(token string) (cookie string) {
			r := httptest.NewRequest("POST", "http://localhost/login", strings.NewReader("token="+token))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Origin", "http://localhost")
			w := httptest.NewRecorder()
			s.http.Handler.ServeHTTP(w, r)
			return w.Result().Cookies()[0].String()
		}
		bob, first := login("bob-1"), login("alice-1")
		time.Sleep(time.Hour)
		second := login("alice-1")
		for range maxLogins - 2 {
			time.Sleep(time.Second)
			login("alice-1")
		}
		if a, b, c := ask(bob), ask(first), ask(second); a != 200 || b != 200 || c != 200 {
			t.Errorf("with as many as there can be: %d %d %d", a, b, c)
		}
		login("alice-1")
		if a, b, c := ask(bob), ask(first), ask(second); a != 200 || b != 401 || c != 200 {
			t.Errorf("with one more: %d %d %d", a, b, c)
		}
		synctest.Wait()
		count := func() int {
			s.callers.mu.Lock()
			defer s.callers.mu.Unlock()
			return len(s.callers.logins)
		}
		if got := count(); got != maxLogins+1 {
			t.Errorf("%d logins", got)
		}
		time.Sleep(11 * time.Hour)
		if a, b := ask(bob), ask(second); a != 401 || b != 200 {
			t.Errorf("after 12 hours: %d %d", a, b)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Cookie", second)
		l, _ := s.loginOf(r)
		time.Sleep(time.Hour)
		if ask(second) != 401 || l.ctx.Err() == nil {
			t.Error("the login has not ended")
		}
		time.Sleep(12 * time.Hour)
		synctest.Wait()
		if got := count(); got != 0 {
			t.Errorf("%d logins are kept", got)
		}
	})
}

// A login has 50 tabs, and takes none of another.
func TestTabsAreBounded(t *testing.T) {
	t.Parallel()
	p := servingPage(t, Config{Find: new(tenantsByToken).find})
	cookie, other := p.login("alice-1"), p.login("alice-1")
	for _, headers := range [][]string{{"Cookie", cookie, "Origin", p.url}, {"Authorization", "Bearer alice-1"}} {
		var tabs []*websocket.Conn
		for range maxTabs {
			tabs = append(tabs, p.open("alice", headers...))
		}
		if c, res := p.dial(headers...); c != nil || res.StatusCode != http.StatusTooManyRequests {
			t.Errorf("one more: %s", res.Status)
		}
		p.open("alice", "Cookie", other, "Origin", p.url)
		tabs[7].CloseNow()
		polltest.Until(t, "the end of a tab", func() bool {
			c, _ := p.dial(headers...)
			return c != nil
		})
	}
}

// Requests of the page are reported by their paths, and neither with a token nor with a cookie.
func TestRequestsOfThePageAreObserved(t *testing.T) {
	t.Parallel()
	seen := make(chan metrics.Request, 100) // more than the test makes
	p := servingPage(t, Config{Find: new(tenantsByToken).find, Observe: func(r metrics.Request) { seen <- r }})
	last := func() string {
		r := <-seen
		r.Time, r.Duration, r.Bytes = time.Time{}, 0, 0
		return fmt.Sprintf("%s %s %s %d %s", r.Tenant, r.Method, r.Path, r.Status, r.Result)
	}
	var cookie string
	for _, test := range []struct {
		want string
		do   func()
	}{
		{" GET / 200 ok", func() { p.status("GET", "/jobs/J?token=alice-1") }},
		{" GET / 200 ok", func() { p.status("GET", "/app.mjs") }},
		{" GET  404 refused", func() { p.status("GET", "/alice-1") }},
		{" POST /login 401 refused", func() {
			p.do(ask{"POST", "/login", []string{"Origin", p.url}, url.Values{"token": {"guess"}}})
		}},
		{"alice POST /login 303 ok", func() { cookie = p.login("alice-1") }},
		{"alice GET /api/ 200 ok", func() { p.status("GET", "/api/jobs", "Cookie", cookie) }},
		{"alice POST /api/ 204 ok", func() { p.status("POST", "/api/jobs/J/input", "Cookie", cookie, "Origin", p.url) }},
		{" GET /api/ 401 refused", func() { p.status("GET", "/api/jobs") }},
		{"alice GET /api/ 101 ok", func() { p.open("alice", "Cookie", cookie, "Origin", p.url).CloseNow() }},
		{"alice POST /logout 303 ok", func() { p.status("POST", "/logout", "Cookie", cookie, "Origin", p.url) }},
	} {
		test.do()
		if got := last(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// Without a page, a server knows none of its paths.
func TestNoPage(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	for _, path := range []string{"/", "/api/jobs", "/login", "/jobs/J"} {
		for _, method := range []string{"GET", "POST"} {
			w := httptest.NewRecorder()
			s.http.Handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if w.Code != http.StatusNotFound {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
}

// A tenant whose engine can't be had gets a clear word.
func TestPageOfATenantThatCanNotBeServed(t *testing.T) {
	t.Parallel()
	p := servingPage(t, Config{Find: func(string) (Caller, bool) { return Caller{"gone", "t"}, true }})
	if got := p.status("GET", "/api/jobs", "Authorization", "Bearer x"); got != http.StatusServiceUnavailable {
		t.Errorf("got %d", got)
	}
}

// A localBackend is the process of a tenant, at a real port.
type localBackend string

func (l localBackend) Dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", string(l))
}
func (l localBackend) Running() bool     { return true }
func (l localBackend) Lost(error) string { return "lost" }

// behindARelay returns a configuration of a server whose tenant is served at an address.
func behindARelay(t *testing.T, address string, c Config) Config {
	tenant := relay.New(localBackend(address), nil, slog.New(slog.DiscardHandler))
	t.Cleanup(tenant.Close)
	c.Relay = func(Caller) *relay.Tenant { return tenant }
	return c
}

// The process of a tenant serves the API. It gets neither cookie nor token, and the page is served
// outside.
func TestRelayedPage(t *testing.T) {
	t.Parallel()
	page := aPage()
	page.Static = nil
	inner := servingPage(t, Config{
		Page: page,
		Find: func(token string) (Caller, bool) {
			return Caller{Tenant: "inner", Token: token}, token == "name of alice-1"
		},
		Counts: func() metrics.Counts { return metrics.Counts{} },
		// The relay's name for each process, which is no TCP port otherwise.
		PublicURL: "http://tenant",
	})
	for _, path := range []string{"/", "/login"} {
		if got := inner.status("GET", path); got != http.StatusNotFound {
			t.Errorf("the process serves %s: %d", path, got)
		}
	}
	find, seen := new(tenantsByToken), make(chan metrics.Request, 100) // more than the test makes
	p := servingPage(t, behindARelay(t, strings.TrimPrefix(inner.url, "http://"), Config{Find: find.find, Observe: func(r metrics.Request) {
		if r.Status == http.StatusSwitchingProtocols {
			seen <- r
		}
	}}))
	cookie := p.login("alice-1")
	if _, text := p.do(ask{"GET", "/", []string{"Cookie", cookie}, nil}); text != "the page" {
		t.Errorf("the page: %s", text)
	}
	if _, text := p.do(ask{"GET", "/api/jobs", []string{"Cookie", cookie, "Origin", p.url, "Sec-Fetch-Site", "same-origin"}, nil}); text != "jobs of inner" {
		t.Errorf("its jobs: %s", text)
	}
	if got := p.status("POST", "/api/jobs/J/input", "Cookie", cookie, "Origin", p.url); got != 204 {
		t.Errorf("an answer: %d", got)
	}
	if got := p.status("POST", "/api/jobs/J/input", "Cookie", cookie); got != 403 {
		t.Errorf("an answer without an Origin: %d", got)
	}
	var tabs []*websocket.Conn
	for range maxTabs/2 + 1 { // the process, to which they are one caller's, does not count them
		tabs = append(tabs, p.open("inner", "Cookie", cookie, "Origin", p.url), p.open("inner", "Authorization", "Bearer alice-1"))
	}
	find.remove(p.Server, "alice-1")
	for _, c := range tabs {
		endsSoon(t, c)
	}
	for range tabs {
		if r := <-seen; r.Path != apiPath || r.Result != metrics.OK {
			t.Errorf("%+v", r)
		}
	}
}

// A process that is in the hands of its jobs chooses nothing of how a browser takes its answers.
func TestHostileTenantAndThePage(t *testing.T) {
	t.Parallel()
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for name, value := range map[string]string{
			"Set-Cookie": "async-repl-1=x", "Location": "https://evil.example/", "Content-Security-Policy": "script-src *", "Refresh": "0; url=https://evil.example",
			"Clear-Site-Data": "*", "Access-Control-Allow-Origin": "*", "Link": "</x>; rel=preload", "Service-Worker-Allowed": "/", "Content-Type": "text/html",
			"Content-Disposition": "inline", "Etag": "x", "Cache-Control": "public", "Mcp-Session-Id": "x", "Sec-Websocket-Extensions": "permessage-deflate",
		} {
			h.Set(name, value)
		}
		if r.Header.Get("Upgrade") != "" {
			for _, name := range []string{"Sec-Websocket-Extensions", "Sec-Websocket-Protocol", "Cookie", "Origin"} {
				if r.Header.Get(name) != "" {
					t.Errorf("the process gets %s", name)
				}
			}
			websocket.Accept(w, r, nil)
			return
		}
		status, _ := strconv.Atoi(r.FormValue("status"))
		w.WriteHeader(status)
		io.WriteString(w, "<script>alert(1)</script>") // an error: there is no body with 204
	}))
	defer hostile.Close()
	p := servingPage(t, behindARelay(t, hostile.Listener.Addr().String(), Config{Page: aPage()}))
	for _, test := range []struct {
		path         string
		says, status int
		kind         string
	}{
		{"/api/jobs", 200, 200, "application/json"},
		{"/api/jobs/J", 200, 200, "application/json"},
		{"/api/sessions/display/1", 200, 200, "application/json"},
		{"/api/jobs/J/output", 200, 200, "display  J.log"},
		{"/api/jobs/J/display/1", 200, 200, "display text/html J-1"},
		{"/api/jobs/J/display/1?download", 200, 200, "display  J-1"},
		{"/api/jobs/J/input", 204, 204, ""},
		{"/api/jobs", 302, 502, "text/plain; charset=utf-8"},
		{"/api/jobs/J/display/1", 206, 502, "text/plain; charset=utf-8"},
		{"/api/jobs", 401, 502, "text/plain; charset=utf-8"},
		{"/api/jobs/J/display/1", 404, 404, "text/plain; charset=utf-8"},
		{"/api/jobs", 999, 999, "text/plain; charset=utf-8"},
	} {
		path, query, _ := strings.Cut(test.path, "?")
		res, _ := p.do(ask{method: "GET", path: fmt.Sprintf("%s?status=%d&%s", path, test.says, query)})
		if got := res.Header.Get("Content-Type"); res.StatusCode != test.status || got != test.kind {
			t.Errorf("%s that says %d: %s, %q", test.path, test.says, res.Status, got)
		}
		for name := range res.Header { // net/http counts a short answer
			if !slices.Contains([]string{"Content-Type", "Content-Security-Policy", "Cache-Control", "Date", "Content-Length"}, name) {
				t.Errorf("%s: %q is passed on", name, res.Header[name])
			}
		}
		if got := res.Header.Get("Content-Security-Policy") + res.Header.Get("Cache-Control"); got != "default-src 'none'no-store" {
			t.Errorf("the headers are those of the process: %s", got)
		}
	}
	c, res := p.dial("Sec-WebSocket-Extensions", "permessage-deflate", "Sec-WebSocket-Protocol", "x")
	if c == nil {
		t.Fatal(res.Status)
	}
	for name := range res.Header {
		if !slices.Contains([]string{"Connection", "Upgrade", "Sec-Websocket-Accept"}, name) {
			t.Errorf("%s: %q is passed on with a WebSocket", name, res.Header[name])
		}
	}
}
