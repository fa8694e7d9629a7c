package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/racetest"
)

// TestServe: one server answers clients of both eras over HTTP, which see the same jobs, and ends
// by a signal.
func TestServe(t *testing.T) {
	s := prepare(t, "REPL_PYTHON="+realPython())
	s.cmd.Args = append(s.cmd.Args, "serve", "-listen", "127.0.0.1:0")
	s.begin()
	url := s.url()

	newer := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "execute_python"}
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	_, reply := post(t, url, newer, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+meta+`,"name":"execute_python","arguments":{"code":"x = 6","wait_seconds":60}}}`)
	if !strings.Contains(reply, "Status: completed") {
		t.Errorf("newer era: %s", reply)
	}

	older := map[string]string{}
	header, _ := post(t, url, older, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	older["Mcp-Session-Id"], older["Mcp-Protocol-Version"] = header.Get("Mcp-Session-Id"), "2025-06-18"
	post(t, url, older, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	_, reply = post(t, url, older, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_python","arguments":{"code":"x * 7","wait_seconds":60}}}`)
	if !strings.Contains(reply, "--- RESULT ---\\n42") {
		t.Errorf("older era: %s", reply)
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	if got := s.exit(); got != "exit status 0" {
		t.Errorf("%s, log %q", got, s.log)
	}
}

// url returns where a server that serves HTTP does so. It waits until it does.
func (s *started) url() (url string) {
	s.t.Helper()
	polltest.Until(s.t, "the address of the server", func() bool {
		_, rest, _ := strings.Cut(s.log.String(), "serving MCP at ")
		line, _, whole := strings.Cut(rest, "\n")
		url = line
		return whole
	})
	return url
}

// post sends one message and returns the headers and the body of the answer.
func post(t testing.TB, url string, header map[string]string, message string) (http.Header, string) {
	t.Helper()
	if !json.Valid([]byte(message)) {
		t.Fatalf("no JSON: %s", message)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(message)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Header, fmt.Sprintf("%s\n%s", answer.Status, body)
}

// sleepInBothEras makes a call in each era that waits for a program, and returns the calls and the
// pids of the programs when their jobs run.
func sleepInBothEras(t *testing.T, s *started) (calls []*client.Pending, pids []int) {
	t.Helper()
	url := s.url()
	var c *client.Client
	for _, version := range []string{client.Newer, client.Older} {
		c = client.NewHTTP(client.HTTP{URL: url, Version: version})
		if err := c.Initialize(s.ctx()); err != nil {
			t.Fatal(err)
		}
		command := "echo $$ > " + version + "; exec sleep 1000"
		call, err := c.Start("execute_command_async", map[string]any{"command": command, "wait_seconds": 100})
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call)
	}
	for _, version := range []string{client.Newer, client.Older} {
		var pid int
		polltest.Check(t, func() error {
			text, err := os.ReadFile(filepath.Join(s.dir, version))
			if err == nil {
				_, err = fmt.Sscanf(string(text), "%d\n", &pid)
			}
			return err
		})
		pids = append(pids, pid)
	}
	polltest.Check(t, func() error { // a job is queued until its program has been started
		r, err := c.Call(s.ctx(), "list_jobs", map[string]any{"status": "running"})
		if err == nil && r.Header("Jobs") != "2, newest first" {
			err = errors.New(string(r))
		}
		return err
	})
	return calls, pids
}

// TestShutdownAnswers: a server that is asked to end answers calls in flight with the current
// status, in both eras, and leaves no process.
func TestShutdownAnswers(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := serveWith(t, "-listen", "127.0.0.1:0")
			calls, pids := sleepInBothEras(t, s)
			s.cmd.Process.Signal(sig)
			for _, call := range calls {
				reply, err := call.Reply(s.ctx())
				if err != nil || reply.Header("Status") != "running" {
					t.Errorf("%v: %s", err, reply)
				}
			}
			if got := s.exit(); got != "exit status 0" {
				t.Errorf("%s, log %q", got, s.log)
			}
			for _, pid := range pids {
				if err := syscall.Kill(pid, 0); err == nil {
					t.Errorf("process %d is left", pid)
				}
			}
		})
	}
}

// TestCancelledCallIsAnnounced: the next replies say once, in both eras, that the job of a call
// runs although its client has closed the request.
func TestCancelledCallIsAnnounced(t *testing.T) {
	t.Parallel()
	s := serveWith(t, "-listen", "127.0.0.1:0")
	for _, version := range []string{client.Newer, client.Older} {
		c := client.NewHTTP(client.HTTP{URL: s.url(), Version: version})
		if err := c.Initialize(s.ctx()); err != nil {
			t.Fatal(err)
		}
		call, err := c.Start("execute_command_async", map[string]any{"command": "echo > " + version + "; exec sleep 1000", "wait_seconds": 100})
		if err != nil {
			t.Fatal(err)
		}
		polltest.Check(t, func() error {
			_, err := os.Stat(filepath.Join(s.dir, version))
			return err
		})
		left, leave := context.WithCancel(t.Context())
		leave()
		if _, err := call.Reply(left); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		var said []string
		next := func() error {
			r, err := c.Call(s.ctx(), "execute_command_async", map[string]any{"command": "true", "wait_seconds": 60})
			if also := r.Header("Also"); also != "" {
				said = append(said, also)
			}
			return err
		}
		polltest.Check(t, func() error {
			if err := next(); err != nil {
				t.Fatal(err) // a reply that was lost can have said so
			}
			if len(said) > 0 {
				return nil
			}
			return fmt.Errorf("version %s: no reply says so", version)
		})
		if err := next(); err != nil || len(said) != 1 || !strings.HasSuffix(said[0], " is still running; its call was cancelled") {
			t.Errorf("version %s: %v, the replies say %q", version, err, said)
		}
	}
}

// TestNoDescriptorIsLeft: thousands of requests, and sessions that no client ends, leave no
// descriptor.
func TestNoDescriptorIsLeft(t *testing.T) {
	if testing.Short() || racetest.Enabled {
		t.Skip("takes many seconds")
	}
	t.Parallel()
	s := serveWith(t, "-listen", "127.0.0.1:0")
	url := s.url()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	newer := client.NewHTTP(client.HTTP{URL: url, Version: client.Newer, Transport: transport})
	call := func(c *client.Client, n int) error {
		for range n {
			if _, err := c.Call(s.ctx(), "list_jobs", nil); err != nil {
				return err
			}
		}
		return nil
	}
	open := func() int {
		found, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
		if err != nil {
			t.Skip("only Linux shows descriptors: ", err)
		}
		return len(found)
	}
	before := open()
	var clients errgroup.Group
	for range 16 {
		clients.Go(func() error { return call(newer, 10_000/16) }) // joined below; ends with its calls
	}
	clients.Go(func() error { // joined below; ends with its calls
		for range 1000 {
			older := client.NewHTTP(client.HTTP{URL: url, Version: client.Older, Transport: transport})
			if err := older.Initialize(s.ctx()); err != nil {
				return err
			}
			if err := call(older, 1); err != nil {
				return err
			}
		}
		return nil
	})
	if err := clients.Wait(); err != nil {
		t.Fatal(err)
	}
	transport.CloseIdleConnections()
	polltest.Check(t, func() error {
		if after := open(); after > before {
			return fmt.Errorf("%d descriptors before, %d after", before, after)
		}
		return nil
	})
}
