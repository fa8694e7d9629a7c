//go:build linux

package proxy_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/sandbox/proxy"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// run runs a program that reaches everything by the proxy, and returns what it printed.
func (w *world) run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	needtest.Program(t, name)
	dir := t.TempDir()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	// As in a sandbox, except NO_PROXY: the loopback is what must not be reached.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_SSL_NO_VERIFY=1", "GIT_TERMINAL_PROMPT=0", "PIP_DISABLE_PIP_VERSION_CHECK=1", "LC_ALL=C"}
	for _, v := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		cmd.Env = append(cmd.Env, v+"=http://"+w.Addr)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// overTLS makes the open server one over TLS at port 443.
func (w *world) overTLS(t *testing.T) {
	t.Helper()
	s := httptest.NewUnstartedServer(w.Open.http.Handler)
	s.Listener.Close()
	s.Listener = must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.StartTLS()
	t.Cleanup(s.Close)
	w.note(func() { w.tls = s.Listener.Addr().(*net.TCPAddr).AddrPort() })
}

// files serves a repository of git, and an index of packages with the package hello.
func files(t *testing.T) http.Handler {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if _, err := exec.LookPath("git"); err == nil {
		git("init", "-q", "work")
		must.Do(t, os.WriteFile(filepath.Join(dir, "work", "README"), []byte("text\n"), 0o644))
		git("-C", "work", "add", ".")
		git("-C", "work", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")
		git("clone", "-q", "--bare", "work", "repo.git")
		git("-C", "repo.git", "update-server-info")
	}
	var wheel bytes.Buffer
	z := zip.NewWriter(&wheel)
	for name, text := range map[string]string{
		"hello.py":                     "x = 1\n",
		"hello-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
		"hello-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"hello-1.0.dist-info/RECORD":   "hello.py,,\n",
	} {
		must.Get(must.Get(z.Create(name))(t).Write([]byte(text)))(t)
	}
	must.Do(t, z.Close())
	const file = "hello-1.0-py3-none-any.whl"
	simple := filepath.Join(dir, "simple", "hello")
	must.Do(t, os.MkdirAll(simple, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(simple, file), wheel.Bytes(), 0o644))
	must.Do(t, os.WriteFile(filepath.Join(simple, "index.html"), []byte(`<a href="`+file+`">`+file+`</a>`), 0o644))
	return http.FileServer(http.Dir(dir))
}

// Real clients reach what is listed, and get the reason if they don't reach what is not.
func TestClients(t *testing.T) {
	serve := func(t *testing.T) *world {
		w := newWorld(t, nil)
		handler := files(t)
		mux := http.NewServeMux()
		mux.Handle("/", handler)
		mux.HandleFunc("/hello", hello)
		mux.Handle("/redirect", http.RedirectHandler("http://"+w.Secret.addr().String()+"/", http.StatusFound))
		w.Open.answer(mux.ServeHTTP)
		w.overTLS(t)
		return w
	}
	const python = `
import ssl, sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], context=ssl._create_unverified_context()).read().decode())
except Exception as e:
    print(e)
`
	const node = `
const http = require("http"), proxy = new URL(process.env.http_proxy), to = process.argv[1];
http.request({host: proxy.hostname, port: proxy.port, path: to, headers: {Host: new URL(to).host}}, r => { r.pipe(process.stdout); }).end();
`
	for _, test := range []struct {
		name string
		args []string // the program and its arguments; SECRET stands for the secret server
		want string
		told []proxy.Refusal // the refusals, without their sources
	}{
		{"curl over http", []string{"curl", "-sS", "http://open.example/hello?x"}, "hello from open", nil},
		{"curl over https", []string{"curl", "-sSk", "https://open.example/hello"}, "hello from open", nil},
		{"curl over http through a tunnel", []string{"curl", "-sSp", "http://open.example/hello"}, "hello from open", nil},
		{"curl with a body", []string{"curl", "-sSk", "-d", "question", "-H", "Expect: 100-continue", "http://open.example/hello"}, "question", nil},
		{"curl that offers HTTP/2", []string{"curl", "-sS", "--http2", "http://open.example/hello"}, "hello from open", nil},
		{"curl, refused", []string{"curl", "-sSk", "https://evil.example/"}, "403", []proxy.Refusal{{Method: "CONNECT", Host: "evil.example", Port: 443}}},
		{"curl, refused over http", []string{"curl", "-sS", "http://evil.example/"}, "evil.example:80 is not in " + setting, []proxy.Refusal{{Method: "HTTP", Host: "evil.example", Port: 80}}},
		{"curl that follows", []string{"curl", "-sSL", "http://open.example/redirect"}, "is not in " + setting, []proxy.Refusal{{Method: "HTTP", Host: "127.0.0.1"}}},
		{"curl with a number", []string{"curl", "-sS", "http://2130706433:PORT/"}, setting, []proxy.Refusal{{Method: "HTTP", Host: "127.0.0.1"}}},
		{"curl with a user", []string{"curl", "-sS", "http://open.example@SECRET/"}, setting, []proxy.Refusal{{Method: "HTTP", Host: "127.0.0.1"}}},
		{"wget", []string{"wget", "-qO-", "http://open.example/hello"}, "hello from open", nil},
		{"wget, refused", []string{"wget", "-O-", "--tries=1", "https://evil.example/"}, "evil.example:443 is not in " + setting, []proxy.Refusal{{Method: "CONNECT", Host: "evil.example", Port: 443}}},
		{"urllib over http", []string{"python3", "-c", python, "http://open.example/hello"}, "hello from open", nil},
		{"urllib over https", []string{"python3", "-c", python, "https://open.example/hello"}, "hello from open", nil},
		{"urllib, refused", []string{"python3", "-c", python, "https://evil.example/"}, "evil.example:443 is not in " + setting, []proxy.Refusal{{Method: "CONNECT", Host: "evil.example", Port: 443}}},
		{"urllib that follows", []string{"python3", "-c", python, "http://open.example/redirect"}, "403", []proxy.Refusal{{Method: "HTTP", Host: "127.0.0.1"}}},
		{"pip over http", []string{"python3", "-m", "pip", "download", "--trusted-host", "open.example", "-i", "http://open.example/simple", "hello"}, "Successfully downloaded hello", nil},
		{"pip over https", []string{"python3", "-m", "pip", "download", "--trusted-host", "open.example", "-i", "https://open.example/simple", "hello"}, "Successfully downloaded hello", nil},
		{"pip, refused", []string{"python3", "-m", "pip", "download", "--retries", "1", "-i", "https://evil.example/simple", "hello"}, "evil.example:443 is not in " + setting, []proxy.Refusal{{Method: "CONNECT", Host: "evil.example", Port: 443}, {Method: "CONNECT", Host: "evil.example", Port: 443}}},
		{"git over http", []string{"git", "clone", "http://open.example/repo.git"}, "Cloning into 'repo'...", nil},
		{"git over https", []string{"git", "clone", "https://open.example/repo.git"}, "Cloning into 'repo'...", nil},
		{"git, refused", []string{"git", "clone", "https://evil.example/repo.git"}, "403", []proxy.Refusal{{Method: "CONNECT", Host: "evil.example", Port: 443}}},
		{"node", []string{"node", "-e", node, "http://open.example/hello"}, "hello from open", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := serve(t)
			args := strings.Split(strings.NewReplacer("SECRET", w.Secret.addr().String(), "PORT", fmt.Sprint(w.Secret.port())).Replace(strings.Join(test.args, "\x00")), "\x00")
			out, err := w.run(t, args[0], args[1:]...)
			if !strings.Contains(out, test.want) || strings.Contains(out, "fatal") && test.told == nil {
				t.Errorf("%v\n%s\nwant %q", err, out, test.want)
			}
			w.note(func() {
				if len(w.refusals) != len(test.told) {
					t.Errorf("refusals %v, want %v", w.refusals, test.told)
					return
				}
				for i, want := range test.told {
					if want.Port == 0 {
						want.Port = w.Secret.port()
					}
					if want.Source = w.refusals[i].Source; w.refusals[i] != want {
						t.Errorf("refusal %v, want %v", w.refusals[i], want)
					}
				}
			})
			w.untouched(t)
		})
	}
}
