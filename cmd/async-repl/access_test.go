package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/serve/tokens"
	"asyncrepl/internal/test/polltest"
)

// serveWith starts a server of many.
func serveWith(t testing.TB, args ...string) *started {
	t.Helper()
	overStdio(t, "the test has clients of its own")
	s := prepare(t)
	s.cmd.Args = append(append(s.cmd.Args, "serve"), args...)
	s.begin()
	return s
}

// A tokenFile is a file of tokens, and the tokens by their tenants.
type tokenFile struct {
	path   string
	tokens map[string]string
}

func newTokens(t testing.TB, tenants ...string) tokenFile {
	t.Helper()
	f := tokenFile{filepath.Join(t.TempDir(), "tokens"), make(map[string]string)}
	var lines []string
	for _, tenant := range tenants {
		token, line, err := tokens.New(tenant)
		if err != nil {
			t.Fatal(err)
		}
		f.tokens[tenant] = token
		lines = append(lines, line)
	}
	f.write(t, lines...)
	return f
}

func (f tokenFile) write(t testing.TB, lines ...string) {
	t.Helper()
	if err := os.WriteFile(f.path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lines returns the lines of the file.
func (f tokenFile) lines(t testing.TB) []string {
	t.Helper()
	raw, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// A tenant sees nothing of another, and no client is served without a token.
func TestTokenIsNeededAndChoosesTheTenant(t *testing.T) {
	file := newTokens(t, "alice", "bob")
	s := serveWith(t, "-listen", "127.0.0.1:0", "-tokens", file.path, "-trusted-tenants")
	url := s.url()
	alice, bob := newerClient(t, url, file.tokens["alice"]), newerClient(t, url, file.tokens["bob"])
	ran := alice.do("execute_command_async", "command", "pwd", "wait_seconds", 60)
	id := ran.Header("Job ID")
	if want := filepath.Join(s.dir, "alice"); !strings.Contains(string(ran), want) {
		t.Errorf("the job ran elsewhere than in %s: %s", want, ran)
	}
	if info, err := os.Stat(filepath.Join(s.dir, "bob")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("bob's workspace: %v, %v", info, err)
	}
	if got := bob.refused("check_job_status", "job_id", id); !strings.Contains(got, "No such job") {
		t.Errorf("bob sees alice's job: %s", got)
	}
	if got := bob.do("list_jobs"); strings.Contains(string(got), id) {
		t.Errorf("bob sees alice's job: %s", got)
	}
	session := request{url: url, token: file.tokens["alice"]}.begin(t)
	foreign, why := 403, "another tenant's"
	if inSandbox() { // bob's process does not know it
		foreign, why = 404, "no such session"
	}
	for name, c := range map[string]struct {
		request
		status int
		says   string
	}{
		"no token":                 {request{message: hello}, 401, "a token is needed"},
		"a wrong token":            {request{token: "guess", message: hello}, 401, "this token is not known"},
		"the hash of a token":      {request{token: strings.Fields(file.lines(t)[0])[1], message: hello}, 401, "this token is not known"},
		"another tenant's session": {request{token: file.tokens["bob"], session: session, message: listJobs}, foreign, why},
		"its end by another":       {request{token: file.tokens["bob"], session: session, method: http.MethodDelete}, foreign, why},
		"its stream for another":   {request{token: file.tokens["bob"], session: session, method: http.MethodGet}, foreign, why},
		"an unknown session":       {request{token: file.tokens["bob"], session: "unknown", message: listJobs}, 404, "no such session"},
		"its own session":          {request{token: file.tokens["alice"], session: session, message: listJobs}, 200, id},
	} {
		c.url = url
		if status, body := c.answer(t); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	for _, token := range file.tokens {
		if strings.Contains(s.log.String(), token) {
			t.Error("the log shows a token")
		}
	}
}

// hangUp asks a server to reread its files, and waits until its log says text once more.
func (s *started) hangUp(text string) {
	s.t.Helper()
	before := strings.Count(s.log.String(), text)
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	polltest.Until(s.t, text, func() bool { return strings.Count(s.log.String(), text) > before })
}

// A removed token is refused and its streams end, while others are not disturbed. A file that can't
// be used changes nothing.
func TestRemovedTokenEndsItsStreams(t *testing.T) {
	file := newTokens(t, "alice", "bob", "carol")
	lines := file.lines(t)
	file.write(t, lines[:2]...)
	s := serveWith(t, "-listen", "127.0.0.1:0", "-tokens", file.path, "-trusted-tenants", "-log-level", "info")
	url := s.url()
	streams := make(map[string]io.ReadCloser)
	sessions := make(map[string]string)
	for _, name := range []string{"alice", "bob"} {
		r := request{url: url, token: file.tokens[name]}
		r.session = r.begin(t)
		sessions[name] = r.session
		r.method = http.MethodGet
		res, err := r.send(t)
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		defer res.Body.Close()
		streams[name] = res.Body
	}
	works := func(name string, want bool) {
		t.Helper()
		r := request{url: url, token: file.tokens[name], message: listJobs, session: sessions[name]}
		if r.session == "" {
			r.message = hello
		}
		status, body := r.answer(t)
		if want && status != 200 || !want && status != 401 {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	var waiting []*client.Pending // in either era
	for _, c := range []*client.Client{s.join(client.Older, file.tokens["alice"]), newerClient(t, url, file.tokens["alice"]).Client} {
		call, err := c.Start("execute_command_async", map[string]any{"command": "sleep 300", "wait_seconds": 100})
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, call)
	}
	running := func() int {
		return strings.Count(string(newerClient(t, url, file.tokens["alice"]).do("list_jobs", "status", "running")), "sleep 300")
	}
	polltest.Until(t, "the jobs to run", func() bool { return running() == len(waiting) })

	file.write(t, "alice nonsense")
	s.hangUp("tokens not reread; those before stay in use")
	file.write(t, lines[0], lines[1], strings.Replace(lines[2], "carol", "Bob", 1))
	s.hangUp("tokens not reread; those before stay in use")
	works("alice", true)
	works("bob", true)
	works("carol", false)

	file.write(t, lines[1:]...)
	s.hangUp("tokens reread")
	if rest, err := io.ReadAll(streams["alice"]); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("alice's stream ends with %q, %v", rest, err)
	}
	for _, call := range waiting {
		if reply, err := call.Reply(s.ctx()); err != nil || !strings.Contains(string(reply), "Status: running") {
			t.Errorf("a call was answered with %s, %v", reply, err)
		}
	}
	works("alice", false)
	works("bob", true)
	works("carol", true)

	// What comes back is there again: the jobs are the tenant's.
	file.write(t, lines...)
	s.hangUp("tokens reread")
	if got := running(); got != len(waiting) {
		t.Errorf("%d jobs run after the token was removed, of %d", got, len(waiting))
	}
	streams["bob"].Close()
}

// certificate writes a certificate with that serial number, valid until then, and its key.
func certificate(t testing.TB, dir string, serial int64, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: until.Add(-time.Hour), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, certErr := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	rawKey, keyErr := x509.MarshalECPrivateKey(private)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := errors.Join(certErr, keyErr,
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: rawKey}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, 1, time.Now().Add(time.Hour))
	s := serveWith(t, "-listen", "127.0.0.1:0", "-tls-cert", cert, "-tls-key", key)
	url := s.url()
	if !strings.HasPrefix(url, "https://") {
		t.Fatalf("the URL is %s", url)
	}
	shows := func(serial int64) {
		t.Helper()
		over := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
		defer over.CloseIdleConnections()
		res, err := request{url: url, transport: over, message: hello}.send(t)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.ProtoMajor != 2 || res.StatusCode != 200 {
			t.Errorf("%s over %s", res.Status, res.Proto)
		}
		if got := res.TLS.PeerCertificates[0].SerialNumber.Int64(); got != serial {
			t.Errorf("shows certificate %d, want %d", got, serial)
		}
	}
	shows(1)
	certificate(t, dir, 2, time.Now().Add(-time.Minute))
	s.hangUp("certificate not reread; the one before stays in use")
	shows(1)
	certificate(t, dir, 3, time.Now().Add(time.Hour))
	s.cmd.Process.Signal(syscall.SIGHUP)
	polltest.Until(t, "the new certificate", func() bool {
		c, err := tls.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "https://"), "/mcp"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64() == 3
	})
	shows(3)
	if status, body := (request{url: strings.Replace(url, "https", "http", 1), message: hello}).answer(t); status != 400 {
		t.Errorf("without TLS: %d %s", status, body)
	}
}

// shortDir returns a directory whose path leaves room for a socket's name.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "async-repl-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestServeUnixSocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "socket")
	s := serveWith(t, "-listen", "unix:"+path)
	if got, want := s.url(), "unix:"+path+", path /mcp"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is %v, %v", info.Mode(), err)
	}
	if status, body := (request{url: "http://localhost/mcp", transport: overSocket(path), message: hello}).answer(t); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	refusedStart(t, "a server that runs listens there", "-listen", "unix:"+path)
	s.cmd.Process.Signal(syscall.SIGTERM)
	if got := s.exit(); got != "exit status 0" {
		t.Error(got)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// refusedStart starts a server that must end with one sentence that says want.
func refusedStart(t *testing.T, want string, args ...string) {
	t.Helper()
	if !slices.Contains(args, "stdio") {
		args = slices.Insert(args, 0, "serve")
	}
	// A process of its own, as a server becomes the parent of orphans, and this one must leave those
	// of other servers to init.
	s := prepare(t)
	s.cmd.Args = append(s.cmd.Args, args...)
	s.begin()
	if got, log := s.exit(), s.log.String(); got == "exit status 0" || !strings.Contains(log, want) || strings.Count(log, "\n") != 1 {
		t.Errorf("%q: %s, %q; want %q", args, got, log, want)
	}
}

// A setting that can't be honoured ends the start.
func TestBadDoorEndsTheStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	one, two, open := newTokens(t, "alice"), newTokens(t, "alice", "bob"), newTokens(t, "alice")
	if err := os.Chmod(open.path, 0o644); err != nil {
		t.Fatal(err)
	}
	good, goodKey := certificate(t, t.TempDir(), 1, time.Now().Add(time.Hour))
	expired, expiredKey := certificate(t, dir, 1, time.Now().Add(-time.Hour))
	below := newTokens(t)
	below.write(t, one.lines(t)[0]+" /etc/passwd")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"another program listens there", []string{"-listen", taken.Addr().String()}},
		{"neither HOST:PORT nor unix:PATH", []string{"-listen", "8000"}},
		{"bytes at most", []string{"-listen", "unix:/" + strings.Repeat("long/", 40)}},
		{"what is there is not a socket", []string{"-listen", "unix:" + one.path}},
		{"its mode is 0644", []string{"-tokens", open.path}},
		{"no such file", []string{"-tokens", filepath.Join(dir, "none")}},
		{"not a directory", []string{"-tokens", below.path}},
		{"set -trusted-tenants", []string{"-tokens", two.path}},
		{`REPL_PYTHON="python3" can't be used with several tenants`, []string{"-tokens", two.path, "-trusted-tenants", "-python", "python3"}},
		{"expired on ", []string{"-tls-cert", expired, "-tls-key", expiredKey}},
		{"private key does not match", []string{"-tls-cert", good, "-tls-key", expiredKey}},
		{"set both -tls-cert and -tls-key", []string{"-tls-key", goodKey}},
		{"set -tokens", []string{"-listen", "0.0.0.0:0"}},
		{"set -tokens", []string{"-host", "0.0.0.0", "-port", "0", "-tls-cert", good, "-tls-key", goodKey}},
		{"set -tls-cert", []string{"-listen", ":0", "-tokens", one.path}},
		{"needs -tokens", []string{"-listen", "0.0.0.0:0", "-behind-proxy"}},
		{"are about HTTP", []string{"-transport", "stdio", "-tokens", one.path}},
		{"true or false", []string{"-behind-proxy=yes"}},
		{"are about HTTP", []string{"-transport", "stdio", "-metrics", "127.0.0.1:0"}},
		{"are about HTTP", []string{"-transport", "stdio", "-access-log", "/dev/null"}},
		{"-page (REPL_PAGE=on) is about HTTP: start async-repl serve -page, or leave it out and run async-repl page", []string{"-transport", "stdio", "-page"}},
		{"opening the access log (-access-log): open /no/such/directory/log", []string{"-access-log", "/no/such/directory/log"}},
		{`serving metrics (-metrics): "nowhere" is neither HOST:PORT nor unix:PATH`, []string{"-metrics", "nowhere"}},
		{"other machines can reach 0.0.0.0:0 (-metrics, REPL_METRICS): set -tokens (REPL_TOKENS), or serve metrics on 127.0.0.1\n", []string{"-metrics", "0.0.0.0:0"}},
	} {
		if inSandbox() && c.want == "set -trusted-tenants" {
			continue // each tenant has a sandbox of its own
		}
		if !slices.Contains(c.args, "-listen") && !slices.Contains(c.args, "-host") && !slices.Contains(c.args, "stdio") {
			c.args = append(c.args, "-listen", "127.0.0.1:0")
		}
		refusedStart(t, c.want, c.args...)
	}
}

// Behind a proxy, other machines may connect without TLS, with a token.
func TestServeBeyondLoopback(t *testing.T) {
	file := newTokens(t, "alice")
	cert, key := certificate(t, t.TempDir(), 1, time.Now().Add(time.Hour))
	for _, args := range [][]string{{"-behind-proxy"}, {"-tls-cert", cert, "-tls-key", key}} {
		s := serveWith(t, append(args, "-listen", "0.0.0.0:0", "-tokens", file.path)...)
		url := strings.Replace(s.url(), "0.0.0.0", "127.0.0.1", 1)
		over := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer over.CloseIdleConnections()
		if status, body := (request{url: url, token: file.tokens["alice"], transport: over, message: hello}).answer(t); status != 200 {
			t.Errorf("%q: %d %s", args, status, body)
		}
		if status, body := (request{url: url, transport: over, message: hello}).answer(t); status != 401 {
			t.Errorf("%q, without a token: %d %s", args, status, body)
		}
	}
}

// A server at a TCP port without tokens says at its start who can use it, and what to do about it.
func TestWithoutTokensTheServerWarns(t *testing.T) {
	t.Parallel()
	file := newTokens(t, "alice")
	for name, tt := range map[string]struct {
		args  []string
		warns bool
	}{
		"TCP":             {[]string{"-listen", "127.0.0.1:0"}, true},
		"TCP with tokens": {[]string{"-listen", "127.0.0.1:0", "-tokens", file.path}, false},
		"Unix socket":     {[]string{"-listen", "unix:" + filepath.Join(t.TempDir(), "s")}, false},
	} {
		s := serveWith(t, tt.args...)
		s.url()
		s.cmd.Process.Signal(syscall.SIGTERM)
		s.exit()
		if got := s.log.String(); strings.Contains(got, "even if it is\nconfined") != tt.warns || strings.Contains(got, "Set -tokens (REPL_TOKENS), or listen at a Unix socket: -listen unix:PATH") != tt.warns {
			t.Errorf("%s: %s", name, got)
		}
	}
}
