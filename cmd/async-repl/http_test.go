package main

import (
	"context"
	"errors"
	"fmt"
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

// sleepInBothEras makes a call in each era that waits for a program, and returns the calls and the
// pids of the programs when their jobs run.
func sleepInBothEras(t *testing.T, s *started) (calls []*client.Pending, pids []int) {
	t.Helper()
	var c *client.Client
	for _, version := range []string{client.Newer, client.Older} {
		c = s.join(version, "")
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
		pids = append(pids, s.seen(pid))
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
		c := s.join(version, "")
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
	before := s.descriptors()
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
		if after := s.descriptors(); after > before+s.relayed() {
			return fmt.Errorf("%d descriptors before, %d after", before, after)
		}
		return nil
	})
}
