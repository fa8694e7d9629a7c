package main

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/serve/tokens"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/readmetest"
)

// nginxLines returns the lines of nginx in docs/serve.md that spread tenants over servers.
func nginxLines(t *testing.T) string {
	t.Helper()
	_, section, found := strings.Cut(readmetest.Text(t, "docs/serve.md"), "\n## Several servers\n")
	_, lines, found2 := strings.Cut(section, "\n\n    map ")
	lines, _, found3 := strings.Cut(lines, "\n\n- ")
	if !found || !found2 || !found3 {
		t.Fatal("docs/serve.md has no lines of nginx for several servers")
	}
	return "map " + lines
}

// startNginx starts nginx with the lines of the docs before servers, and returns what connects to it. It
// listens at a Unix socket, because it can't say which free port it has found.
func startNginx(t *testing.T, servers []*started) http.RoundTripper {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "nginx"))(t) // t.TempDir is too long for a socket
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	changes := []string{"listen 127.0.0.1:8000;", "listen unix:" + socket + ";"}
	for i, s := range servers {
		changes = append(changes, fmt.Sprintf("127.0.0.1:%d ", 8001+i), strings.TrimSuffix(strings.TrimPrefix(s.url(), "http://"), "/mcp")+" ")
	}
	lines := nginxLines(t)
	for i := 0; i < len(changes); i += 2 {
		if strings.Count(lines, changes[i]) != 1 {
			t.Fatalf("the lines of the docs don't have %q once:\n%s", changes[i], lines)
		}
	}
	config := "daemon off; master_process off; pid DIR/pid; error_log stderr; events {}\nhttp {\naccess_log off; client_body_temp_path DIR/b; " +
		"proxy_temp_path DIR/p; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;\n" +
		"add_header Hashed $tenant always;\n" + strings.NewReplacer(changes...).Replace(lines) + "\n}\n"
	file := filepath.Join(dir, "nginx.conf")
	must.Do(t, os.WriteFile(file, []byte(strings.ReplaceAll(config, "DIR", dir)), 0o600))
	nginx := exec.Command("nginx", "-p", dir, "-c", file, "-e", "stderr")
	log := new(lockedBuffer)
	nginx.Stderr = log
	must.Do(t, nginx.Start())
	t.Cleanup(func() {
		nginx.Process.Signal(syscall.SIGTERM) // an error: it has ended
		nginx.Wait()
		if t.Failed() {
			t.Logf("nginx says %s", log)
		}
	})
	polltest.Check(t, func() error {
		c, err := net.Dial("unix", socket)
		if err != nil {
			return fmt.Errorf("%w; nginx says %s", err, log)
		}
		return c.Close()
	})
	over := overSocket(socket)
	t.Cleanup(over.CloseIdleConnections)
	return over
}

// scheme writes the scheme of tokens in another way.
type scheme struct{ http.RoundTripper }

func (s scheme) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "Bearer ", "bearer  ", 1))
	return s.RoundTripper.RoundTrip(r)
}

// nginx sends all requests of a tenant to one of several servers, whatever its name is, and those of tokens
// without a name to one. If a server is down, no other starts jobs for its tenants.
func TestSeveralServersBehindNginx(t *testing.T) {
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin") // a package installs it there
	needtest.Program(t, "nginx")
	names := []string{"alice", "bob", "0", "a.b.c", "a.b", "Team_1-x.", "a..", "arepl_a", "none", strings.Repeat("x", 64), "carol", "dave"}
	file := newTokens(t, names...)
	lines := file.lines(t)
	grants := make(map[string][]string) // tokens of each tenant
	for _, name := range names {
		second, line, err := tokens.New(name)
		must.Do(t, err)
		grants[name] = []string{file.tokens[name], second}
		lines = append(lines, line)
	}
	const old1, old2 = "old-1", "old-2"
	for _, name := range []string{old1, old2} { // a token as earlier versions have made it
		token := "arepl_" + strings.Repeat(name[4:], 43)
		grants[name] = []string{token}
		lines = append(lines, fmt.Sprintf("%s %x", name, sha256.Sum256([]byte(token))))
	}
	file.write(t, lines...)
	var servers []*started
	for range 3 {
		servers = append(servers, serveWith(t, "-listen", "127.0.0.1:0", "-tokens", file.path, "-trusted-tenants"))
	}
	over := startNginx(t, servers)
	const url = "http://127.0.0.1/mcp"

	// at returns which server runs the job of a client.
	at := func(name string, c *started) int {
		t.Helper()
		r := c.do("execute_command_async", "command", "pwd", "wait_seconds", 60)
		for i, s := range servers {
			if strings.Contains(string(r), filepath.Join(s.dir, name)+"\n") {
				return i
			}
		}
		t.Fatalf("the job of %s ran elsewhere:\n%s", name, r)
		return -1
	}
	homes, used := make(map[string]int), make(map[int]bool)
	for name, tokens := range grants {
		for i, token := range tokens {
			older := &started{Client: client.NewHTTP(client.HTTP{URL: url, Version: client.Older, Token: token, Transport: over}), t: t, log: new(lockedBuffer)}
			must.Do(t, older.Initialize(older.ctx()))
			for era, c := range []*started{clientOver(t, url, token, over), older, clientOver(t, url, token, scheme{over})} {
				home := at(name, c)
				if first, known := homes[name]; known && home != first {
					t.Errorf("token %d of %s leads to server %d by client %d, and to %d before", i+1, name, home, era, first)
				}
				homes[name] = home
				used[home] = true
			}
		}
	}
	if len(used) < 2 {
		t.Errorf("all tenants are at one server: %v", homes)
	}
	if homes[old1] != homes[old2] {
		t.Errorf("the tokens without a name lead to servers %d and %d", homes[old1], homes[old2])
	}

	// post sends a request with a token, and returns the status of the answer and what nginx has hashed.
	post := func(token string) (status int, hashed string) {
		r := must.Get(http.NewRequest(http.MethodPost, url, strings.NewReader(hello)))(t)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer := must.Get(over.RoundTrip(r))(t)
		answer.Body.Close()
		return answer.StatusCode, answer.Header.Get("Hashed")
	}
	for _, name := range names {
		for _, token := range grants[name] {
			if _, hashed := post(token); hashed != name {
				t.Errorf("nginx takes %q for the tenant of a token of %s", hashed, name)
			}
		}
	}
	for _, token := range []string{"", "alice.arepl_guess", "bob." + strings.TrimPrefix(grants["alice"][0], "alice.")} {
		if status, _ := post(token); status != http.StatusUnauthorized {
			t.Errorf("a wrong token is answered with %d", status)
		}
	}

	down := homes["alice"]
	servers[down].cmd.Process.Signal(syscall.SIGTERM)
	servers[down].exit()
	for range 2 { // the second time nginx knows that it is down
		for name, tokens := range grants {
			c := clientOver(t, url, tokens[0], over)
			if homes[name] != down {
				if home := at(name, c); home != homes[name] {
					t.Errorf("%s has moved from server %d to %d", name, homes[name], home)
				}
			} else if r, err := c.Call(c.ctx(), "execute_command_async", map[string]any{"command": "pwd"}); err == nil || !strings.Contains(err.Error(), "502") {
				t.Errorf("the server of %s is down, and its call is answered: %v\n%s", name, err, r)
			}
		}
	}
}
