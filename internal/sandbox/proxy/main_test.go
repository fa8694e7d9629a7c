//go:build linux

package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/sandbox/proxy"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// parts are the programs that the test binary plays if its first argument names one.
var parts = map[string]func() error{}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if part := parts[os.Args[1]]; part != nil {
			if err := part(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// setting is the name of the list in answers.
const setting = "REPL_SANDBOX_NET"

// list is what the proxy of a world allows.
const list = "open.example, *.below.example, packages, 10.9.9.9:80, [2001:db8::9], 127.9.9.9"

// names are what the resolver of a world knows. Two answers are one for the first question and one for all
// others. A question that is not in the list is an error of the test.
var names = map[string][][]string{
	"open.example":              {{"93.184.216.34"}},
	"pypi.org":                  {{"93.184.216.34"}},
	"a.below.example":           {{"2606:2800::1"}},
	"a.b.below.example":         {{"::ffff:93.184.216.34"}},
	"nat64.below.example":       {{"64:ff9b::93.184.216.34"}},
	"mixed.below.example":       {{"127.0.0.1", "::1", "10.0.0.1", "93.184.216.34"}},
	"listed.below.example":      {{"10.9.9.9"}},
	"loop.below.example":        {{"127.9.9.9"}},
	"six.below.example":         {{"2001:db8::9"}},
	"second.below.example":      {{"93.184.216.99", "93.184.216.34"}},
	"both.below.example":        {{"2606:2800:0:99::1", "2606:2800:0:99::2", "93.184.216.34"}},
	"down.below.example":        {{"93.184.216.99"}},
	"none.below.example":        {{}},
	"rebind.below.example":      {{"93.184.216.34"}, {"127.0.0.1"}},
	"rebind-http.below.example": {{"93.184.216.34"}, {"10.0.0.1"}},
}

// reachable are the addresses at which the open server of a world stands. At those with 99 nothing
// listens, and all others are the secret server.
var reachable = []netip.Prefix{
	netip.MustParsePrefix("93.184.216.0/24"), netip.MustParsePrefix("2606:2800::/32"), netip.MustParsePrefix("64:ff9b::5db8:d800/120"),
	netip.MustParsePrefix("10.9.9.9/32"), netip.MustParsePrefix("127.9.9.9/32"), netip.MustParsePrefix("2001:db8::9/128"),
}

// A world is a proxy and two real servers on the loopback: one that stands for the Internet and must be
// reached, and one that stands for all else and must not.
type world struct {
	t            testing.TB
	Proxy        *proxy.Proxy
	Addr         string // the address of the proxy
	Open, Secret *server
	config       proxy.Config

	mu       sync.Mutex
	tls      netip.AddrPort // the open server over TLS, at port 443
	asked    map[string]int // how often the resolver was asked for each name
	dialled  []netip.AddrPort
	refusals []proxy.Refusal
	wrong    []string // questions that must not be asked
}

// newWorld starts the servers and the proxy. change changes its configuration.
func newWorld(t testing.TB, change func(*proxy.Config)) *world {
	t.Helper()
	w := &world{t: t, asked: make(map[string]int)}
	w.Open = newServer(t, "hello from open", hello)
	w.Secret = newServer(t, "hello from secret", hello)
	w.config = proxy.Config{
		Hosts: must.Get(sandbox.ParseHosts(list))(t), Setting: setting,
		Log:     slog.New(slog.DiscardHandler),
		Refused: func(_ context.Context, r proxy.Refusal) { w.note(func() { w.refusals = append(w.refusals, r) }) },
		Resolve: w.resolve, Dial: w.dial,
	}
	if change != nil {
		change(&w.config)
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	w.Addr = l.Addr().String()
	w.serve(l)
	return w
}

// serve starts a proxy of the world at a listener.
func (w *world) serve(l net.Listener) {
	w.Proxy = proxy.Start(w.config, l)
	w.t.Cleanup(w.Proxy.Close)
}

func (w *world) note(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) resolve(_ context.Context, name string) (found []netip.Addr, err error) {
	w.note(func() {
		var answer []string
		if literal, ok := strings.CutSuffix(name, ".address.below.example"); ok {
			answer = []string{strings.NewReplacer("-", ":", "_", ".").Replace(strings.Trim(literal, "x"))}
		} else if answers := names[name]; answers != nil {
			answer = answers[min(w.asked[name], len(answers)-1)]
		} else {
			w.wrong = append(w.wrong, name)
			err = errors.New("no such host")
		}
		w.asked[name]++
		for _, text := range answer {
			found = append(found, netip.MustParseAddr(text))
		}
	})
	return found, err
}

func (w *world) dial(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	var tls netip.AddrPort
	w.note(func() { w.dialled, tls = append(w.dialled, to), w.tls })
	at := w.Secret.addr()
	switch {
	case strings.Contains(to.Addr().String(), "99"):
		at = netip.MustParseAddrPort("127.0.0.1:1")
	case slices.ContainsFunc(reachable, func(p netip.Prefix) bool { return p.Contains(to.Addr()) }):
		at = w.Open.addr()
		if tls.IsValid() && to.Port() == 443 {
			at = tls
		}
	}
	return new(net.Dialer).DialTCP(ctx, "tcp", netip.AddrPort{}, at)
}

// connect connects to the proxy.
func (w *world) connect(t testing.TB) *client {
	t.Helper()
	c := must.Get(net.Dial("tcp", w.Addr))(t).(*net.TCPConn)
	must.Do(t, c.SetDeadline(time.Now().Add(polltest.Patience)))
	t.Cleanup(func() { c.Close() })
	return &client{TCPConn: c, r: bufio.NewReader(c)}
}

// A client is one connection to a proxy.
type client struct {
	*net.TCPConn
	r *bufio.Reader
}

// send sends bytes as they are.
func (c *client) send(t testing.TB, text string) {
	t.Helper()
	must.Get(io.WriteString(c, text))(t)
}

// answer reads a response with its body. "" is the method of its request.
func (c *client) answer(t testing.TB, method string) (*http.Response, string) {
	t.Helper()
	r := must.Get(http.ReadResponse(c.r, &http.Request{Method: method}))(t)
	if method == http.MethodConnect && r.StatusCode == 200 {
		return r, ""
	}
	return r, string(must.Get(io.ReadAll(r.Body))(t))
}

// ended waits until the proxy has closed the connection.
func (c *client) ended() { io.Copy(io.Discard, c.r) }

// A server is one on the loopback that records what it gets.
type server struct {
	l        net.Listener
	http     http.Server
	mu       sync.Mutex
	next     http.HandlerFunc
	conns    int
	requests []*http.Request
}

// newServer starts a server. Its name is the header Server of its responses.
func newServer(t testing.TB, name string, handler http.HandlerFunc) *server {
	t.Helper()
	s := &server{l: must.Get(net.Listen("tcp", ":0"))(t), next: handler}
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		next := s.next
		s.mu.Unlock()
		w.Header().Set("Server", name)
		next(w, r)
	})
	s.http.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
		}
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.http.Serve(s.l)
	}()
	t.Cleanup(func() {
		s.http.Close()
		<-served
	})
	return s
}

// answer replaces the handler.
func (s *server) answer(next http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = next
}

// hello answers every request with its body, or with the server's name.
func hello(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if len(body) == 0 {
		body = []byte(w.Header().Get("Server"))
	}
	w.Write(body)
}

func (s *server) port() int { return s.l.Addr().(*net.TCPAddr).Port }
func (s *server) addr() netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(s.port()))
}

// seen returns how many connections the server had, and its requests.
func (s *server) seen() (int, []*http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns, slices.Clone(s.requests)
}

// untouched fails the test if the secret server was reached, or the resolver asked for a name that the list
// does not allow.
func (w *world) untouched(t testing.TB) {
	t.Helper()
	w.note(func() {
		for _, to := range w.dialled {
			if !slices.ContainsFunc(reachable, func(p netip.Prefix) bool { return p.Contains(to.Addr()) }) {
				t.Errorf("%v was dialled", to)
			}
		}
		if w.wrong != nil {
			t.Errorf("the resolver was asked for %q", w.wrong)
		}
	})
	// The server accepts this connection after all others.
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	must.Get(c.Get("http://" + w.Secret.addr().String()))(t).Body.Close()
	if n, requests := w.Secret.seen(); n != 1 || len(requests) != 1 {
		t.Errorf("the secret server had %d connections and %d requests besides that of its test", n-1, len(requests)-1)
	}
}
