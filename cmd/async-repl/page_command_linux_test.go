package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// A pageProcess is the command page, in a process of its own.
type pageProcess struct {
	*browser
	cmd *exec.Cmd
	key string
	log *lockedBuffer // its standard error
}

// startPage starts the command where a server listens, and logs a browser in as its page does.
func (s *started) startPage(args ...string) *pageProcess {
	t := s.t.(*testing.T)
	t.Helper()
	p := &pageProcess{cmd: bounded(t, ownProgram(t), append([]string{"page"}, args...)...), log: new(lockedBuffer)}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = s.dir, append(slices.Clone(s.cmd.Env), "DISPLAY=", "WAYLAND_DISPLAY="), p.log
	out := must.Get(p.cmd.StdoutPipe())(t)
	must.Do(t, p.cmd.Start())
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		if t.Failed() {
			t.Logf("the page says, %v:\n%s", p.cmd.ProcessState, p.log)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the page prints %q and ends: %v", line, p.cmd.Wait())
	}
	address, key, _ := strings.Cut(strings.TrimSpace(line), "/#")
	p.key = key
	p.browser = &browser{t: t, url: address, client: &http.Client{Transport: new(http.Transport)}}
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(p.client.CloseIdleConnections)
	p.cookie = p.login(key)
	return p
}

// login logs in with a key, and returns the cookie, or "" if the key is refused.
func (p *pageProcess) login(key string) string {
	p.t.Helper()
	r := p.request("POST", "/login", strings.NewReader("token="+key))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Del("Cookie")
	answer, _ := p.send(r)
	if len(answer.Cookies()) == 0 {
		return ""
	}
	c := answer.Cookies()[0]
	port := p.url[strings.LastIndex(p.url, ":")+1:]
	if c.Name != "async-repl-"+port || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.MaxAge != 12*60*60 {
		p.t.Errorf("the cookie is %v", c)
	}
	return c.Name + "=" + c.Value
}

// interrupt presses Ctrl-C. Nothing of the page is left then.
func (p *pageProcess) interrupt() {
	p.t.Helper()
	must.Do(p.t, p.cmd.Process.Signal(unix.SIGINT))
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("after Ctrl-C: %v", err)
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://")); err == nil {
		c.Close()
		p.t.Error("the port is left")
	}
}

const asksName = "printf 'Name? '; read x; echo got $x"

// asks starts a job that waits for an answer, and returns its id.
func (s *started) asks() string {
	s.t.Helper()
	return s.do("execute_command_async", "command", asksName, "wait_seconds", 60).Header("Job ID")
}

// The page shows three servers, answers the job of one, and continues when one is lost and returns.
// After Ctrl-C nothing is left of it.
func TestPageCommand(t *testing.T) {
	t.Parallel()
	runtime := "XDG_RUNTIME_DIR=" + runtimeDir(t)
	a, b, c := startFront(t, runtime), startFront(t, runtime), startFront(t, runtime, "REPL_KEEPER=off")
	idA, idB, idC := a.asks(), b.asks(), c.asks()
	p := a.startPage("-no-browser")
	live := p.live()
	seen := make(map[string]bool)
	for _, want := range []string{`"complete":true`} {
		all := p.until(live, want)
		for _, part := range []string{idA, idB, idC, sockets.Resolve(a.dir), sockets.Resolve(b.dir), sockets.Resolve(c.dir)} {
			seen[part] = strings.Contains(all, part)
		}
	}
	for part, ok := range seen {
		if !ok {
			t.Errorf("the page does not show %s", part)
		}
	}
	if status, text := p.ask("POST", "/api/jobs/"+idB+"/input", `{"text":"Ada\n"}`); status != http.StatusNoContent {
		t.Errorf("the answer: %d %s", status, text)
	}
	r := b.end(idB)
	if !strings.Contains(string(r), "got Ada") || !strings.HasPrefix(r.Header("Answered"), "by a person, ") {
		t.Errorf("the client of the answered job reads\n%s", r)
	}
	if r := a.do("check_job_status", "job_id", idA); r.Header("Status") != "waiting_input" {
		t.Errorf("the job of another server is %s", r.Header("Status"))
	}

	must.Do(t, unix.Kill(a.engine(), unix.SIGKILL))
	p.until(live, `"lost":true`)
	next := a.another()
	next.open()
	again := next.asks()
	p.until(live, again)
	if status, text := p.ask("GET", "/api/jobs/"+again, ""); status != http.StatusOK || !strings.Contains(text, `"title":"printf `) {
		t.Errorf("the job of the next server: %d %s", status, text)
	}

	p.interrupt()
	names, _ := filepath.Glob(filepath.Join(a.setting("XDG_RUNTIME_DIR"), "async-repl", "*"))
	for _, name := range names {
		if pid := name[strings.LastIndex(name, "-")+1:]; !slices.Contains([]string{fmt.Sprint(next.engine()), fmt.Sprint(b.engine()), fmt.Sprint(c.cmd.Process.Pid)}, pid) {
			t.Errorf("%s is left", name)
		}
	}
	if r := c.do("check_job_status", "job_id", idC); r.Header("Status") != "waiting_input" {
		t.Errorf("after the end of the page a job is %s", r.Header("Status"))
	}
}

// An engine in a sandbox is on the page, too, with what its jobs ask.
func TestPageOfASandbox(t *testing.T) {
	t.Parallel()
	s := openConfined(t)
	id := s.asks()
	p := s.startPage("-no-browser")
	live := p.live()
	p.until(live, id)
	must.Do(t, live.Write(t.Context(), 1, []byte(`{"op":"open","job":"`+id+`","cursor":0}`)))
	p.until(live, `"output":{`)
	if status, text := p.ask("POST", "/api/jobs/"+id+"/input", `{"text":"Ada\n"}`); status != http.StatusNoContent {
		t.Errorf("the answer: %d %s", status, text)
	}
	if r := s.end(id); !strings.Contains(string(r), "got Ada") {
		t.Errorf("the client reads\n%s", r)
	}
	p.interrupt()
}

// Only a browser that knows the key gets anything, and REPL_PAGE=off keeps a server off the page.
func TestPageAsksForItsKey(t *testing.T) {
	t.Parallel()
	runtime := "XDG_RUNTIME_DIR=" + runtimeDir(t)
	s, off := startFront(t, runtime), startFront(t, runtime, "REPL_PAGE=off")
	id, hidden := s.asks(), off.asks()
	p := s.startPage("-no-browser", "-listen=127.0.0.1:0")
	polltest.Until(t, "the word about the server without a page", func() bool { return strings.Contains(p.log.String(), "(REPL_PAGE=off)") })
	if status, text := p.ask("GET", "/api/jobs", ""); status != http.StatusOK || !strings.Contains(text, id) || strings.Contains(text, hidden) {
		t.Errorf("the list: %d %s", status, text)
	}
	if p.login("wrong") != "" {
		t.Error("a wrong key is taken")
	}
	for name, c := range map[string]struct {
		method string
		header http.Header
		status int
	}{
		"no cookie":        {"GET", http.Header{}, http.StatusUnauthorized},
		"old cookie":       {"GET", http.Header{"Cookie": {strings.Split(p.cookie, "=")[0] + "=old"}}, http.StatusUnauthorized},
		"foreign cookie":   {"GET", http.Header{"Cookie": {"async-repl-1" + "=" + strings.Split(p.cookie, "=")[1]}}, http.StatusUnauthorized},
		"foreign origin":   {"POST", http.Header{"Cookie": {p.cookie}, "Origin": {"http://evil.example"}}, http.StatusForbidden},
		"another port":     {"POST", http.Header{"Cookie": {p.cookie}, "Origin": {"http://127.0.0.1:1"}}, http.StatusForbidden},
		"no origin":        {"POST", http.Header{"Cookie": {p.cookie}}, http.StatusForbidden},
		"bearer":           {"POST", http.Header{"Authorization": {"Bearer " + p.key}}, http.StatusNoContent},
		"foreign host":     {"GET", http.Header{"Cookie": {p.cookie}, "Host": {"evil.example"}}, http.StatusForbidden},
		"another bearer":   {"POST", http.Header{"Authorization": {"Bearer x"}}, http.StatusUnauthorized},
		"protocol of MCP":  {"MCP", http.Header{"Authorization": {"Bearer " + p.key}}, http.StatusServiceUnavailable},
		"path of no file":  {"FILE", http.Header{"Cookie": {p.cookie}}, http.StatusNotFound},
		"page of a person": {"PAGE", http.Header{"Cookie": {p.cookie}}, http.StatusOK},
	} {
		path, body := "/api/jobs/"+id, ""
		switch c.method {
		case "POST":
			path, body = path+"/input", `{"text":"x"}`
		case "MCP":
			c.method, path, body = "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		case "FILE":
			c.method, path = "GET", "/none.mjs"
		case "PAGE":
			c.method, path = "GET", "/jobs/"+id
		}
		r := must.Get(http.NewRequestWithContext(t.Context(), c.method, p.url+path, strings.NewReader(body)))(t)
		r.Header = c.header
		r.Host = c.header.Get("Host")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if answer, text := p.send(r); answer.StatusCode != c.status {
			t.Errorf("%s: %s: %s", name, answer.Status, text)
		}
	}
	for _, path := range []string{"/", "/jobs/" + id} { // the page itself logs in
		if answer, text := p.send(must.Get(http.NewRequestWithContext(t.Context(), "GET", p.url+path, nil))(t)); answer.StatusCode != http.StatusOK || strings.Contains(text, id) {
			t.Errorf("without a login %s is %s: %s", path, answer.Status, text)
		}
	}
	if os.Geteuid() == 0 {
		over := dialAs(t, ordinaryID, "tcp", strings.TrimPrefix(p.url, "http://"))
		defer over.CloseIdleConnections()
		r := must.Get(http.NewRequestWithContext(t.Context(), "GET", p.url+"/api/jobs", nil))(t)
		r.Header.Set("Authorization", "Bearer "+p.key)
		answer := must.Get(over.RoundTrip(r))(t)
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("another user with the key: %s", answer.Status)
		}
	}
	second := s.startPage("-no-browser") // two at once
	if status, text := second.ask("GET", "/api/jobs/"+id, ""); status != http.StatusOK {
		t.Errorf("the second page: %d %s", status, text)
	}
	out, code := s.person("page", "-no-browser", "-listen="+strings.TrimPrefix(p.url, "http://"))
	if code != 1 || !strings.Contains(out, "another program listens there") {
		t.Errorf("a third one at the same port: exit %d, %s", code, out)
	}
	second.interrupt()
	p.interrupt()
}

// The browser of the desktop is opened at the address, once. Without one the address is there to read.
func TestPageOpensABrowser(t *testing.T) {
	t.Parallel()
	s := prepareFront(t)
	bin := t.TempDir()
	program := "#!/bin/sh\necho \"$@\" >" + bin + "/part; mv " + bin + "/part " + bin + "/got\n"
	must.Do(t, os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(program), 0o700))
	s.cmd.Env = append(s.cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	p := s.startPage()
	polltest.Until(t, "a word", func() bool {
		return strings.Contains(p.log.String(), "no browser was opened (there is no desktop): open the address yourself\n")
	})
	p.interrupt()
	cmd := s.command("page")
	cmd.Env = append(slices.Clone(s.cmd.Env), "DISPLAY=:0")
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Signal(unix.SIGTERM)
	line := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	polltest.Check(t, func() error {
		got, err := os.ReadFile(filepath.Join(bin, "got"))
		if err == nil && string(got) != line {
			err = fmt.Errorf("the browser gets %q, and %q was printed", got, line)
		}
		return err
	})
	go io.Copy(io.Discard, out) // ends with the process
}

// A terminal job whose server was killed is shown in a terminal of its last size, and no end is made up for it:
// the page, the commands and the resource say the same.
func TestTerminalOfAKilledServerOnThePage(t *testing.T) {
	t.Parallel()
	state := newState(t)
	first := startServer(t, "REPL_STATE_DIR="+state, "REPL_KEEPER=off", "XDG_RUNTIME_DIR="+runtimeDir(t))
	id := first.do("execute_command_async", "command", `printf '\033[?1049h\033[2J\033[3;5Hdrawn'; sleep 1000`, "wait_seconds", 0).Header("Job ID")
	first.prints(id, "drawn")
	first.do("send_command_input", "job_id", id, "size", []int{30, 90})
	first.kill()

	s := first.restart(state, "REPL_KEEPER=off", "XDG_RUNTIME_DIR="+first.setting("XDG_RUNTIME_DIR"))
	s.asks() // a server is found from its first job on
	type job struct {
		ID         string    `json:"id"`
		Rows       int       `json:"rows"`
		Columns    int       `json:"columns"`
		StatusText string    `json:"status_text"`
		Ended      time.Time `json:"ended"`
		LastOutput time.Time `json:"last_output"`
	}
	read := func(what, text string, to any) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatalf("%s: %v in %s", what, err, text)
		}
	}
	p := s.startPage("-no-browser")
	p.until(p.live(), id)
	var onPage job
	_, text := p.ask("GET", "/api/jobs/"+id, "")
	read("the page", text, &onPage)
	if onPage.Rows != 30 || onPage.Columns != 90 {
		t.Errorf("the page has %d rows and %d columns: %s", onPage.Rows, onPage.Columns, text)
	}
	var resource struct{ Contents []struct{ Text string } }
	read("the resource", string(must.Get(s.Request(s.ctx(), "resources/read", map[string]any{"uri": "job://" + id}))(t)), &resource)
	var listed struct{ Jobs []job }
	_, text = p.ask("GET", "/api/jobs", "")
	read("the list of the page", text, &listed)
	out, _ := s.person("ps", "--all", "--json")
	var ps struct{ Past []job }
	read("ps", out, &ps)
	all := map[string]job{"the page": onPage}
	var one job
	read("the document", resource.Contents[0].Text, &one)
	all["the resource"] = one
	for what, jobs := range map[string][]job{"the list of the page": listed.Jobs, "ps": ps.Past} {
		i := slices.IndexFunc(jobs, func(j job) bool { return j.ID == id })
		if i < 0 {
			t.Errorf("%s has no job %s", what, id)
			continue
		}
		all[what] = jobs[i]
	}
	for what, j := range all {
		if j.StatusText != "failed (server was killed)" || !j.Ended.IsZero() || what != "the list of the page" && (j.LastOutput.IsZero() || !j.LastOutput.Equal(onPage.LastOutput)) {
			t.Errorf("%s says %+v", what, j)
		}
	}
	if out, _ := s.person("logs", "--view", "screen", id); out != "\n\n    drawn\n" {
		t.Errorf("the screen is %q", out)
	}
	out, _ = s.person("ps", "--all")
	if _, line, _ := strings.Cut(out, id[:14]); strings.Contains(line[:strings.Index(line, "printf")], "0") {
		t.Errorf("ps says how long it ran: %s", out)
	}
}
