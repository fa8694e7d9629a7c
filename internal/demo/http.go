//go:build unix

package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"asyncrepl/internal/mcpclient"
	"asyncrepl/internal/tokens"
)

// A manyServer is a server over HTTP that the clients of two tenants share.
type manyServer struct {
	cmd    *exec.Cmd
	url    string
	tokens map[string]string // by tenant
	logged chan struct{}     // closed when its log has ended
}

// serveTwo starts a server for alice and bob, each with a token.
func (p Program) serveTwo(ctx context.Context, dir string, stderr io.Writer) (*manyServer, error) {
	m := &manyServer{tokens: make(map[string]string)}
	var file strings.Builder
	for _, tenant := range []string{"alice", "bob"} {
		token, line, err := tokens.New(tenant)
		if err != nil {
			return nil, err
		}
		m.tokens[tenant] = token
		fmt.Fprintln(&file, line)
	}
	path := filepath.Join(dir, "tokens")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		return nil, err
	}
	workspace := filepath.Join(dir, "many")
	m.cmd = p.command(ctx, workspace, workspace+"-state",
		"serve", "-listen", "127.0.0.1:0", "-tokens", path, "-trusted-tenants", "-toolsets", "core,files")
	log, err := m.cmd.StderrPipe()
	if err := errors.Join(err, os.Mkdir(workspace, 0o700), m.cmd.Start()); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(log)
	for m.url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, errors.Join(errors.New("the server over HTTP did not start: "+line), m.cmd.Wait())
		}
		if url, ok := strings.CutPrefix(line, "async-repl: serving MCP at "); ok {
			m.url = strings.TrimSpace(url)
		} else {
			io.WriteString(stderr, line)
		}
	}
	m.logged = make(chan struct{})
	go func() { // owned by close, which waits for it; ends with the server
		defer close(m.logged)
		io.Copy(stderr, lines)
	}()
	return m, nil
}

// close ends the server and everything that it started.
func (m *manyServer) close() error {
	m.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	<-m.logged
	if err := m.cmd.Wait(); err != nil {
		return fmt.Errorf("the server over HTTP: %w", err)
	}
	return nil
}

// over returns how a tenant reaches the server.
func (s *session) over(tenant, version string) mcpclient.HTTP {
	return mcpclient.HTTP{URL: s.many.url, Version: version, Token: s.many.tokens[tenant]}
}

// as returns a session of a tenant's client over HTTP, which speaks a version of the protocol.
func (s *session) as(tenant, version string) (*session, error) {
	c := mcpclient.NewHTTP(s.over(tenant, version))
	fmt.Fprintf(s.out, "   %s, by the protocol of %s:\n", tenant, version)
	other := *s
	other.c = c
	return &other, c.Initialize(s.ctx)
}

// twoEras has clients of both eras use one session of Python.
func twoEras(s *session) error {
	for _, c := range []struct{ version, code, result string }{
		{mcpclient.Older, "x = 6; x", "6"},
		{mcpclient.Newer, "x * 7", "42"},
	} {
		alice, err := s.as("alice", c.version)
		if err != nil {
			return err
		}
		r, err := alice.call("execute_python", map[string]any{"code": c.code, "wait_seconds": 60})
		if err != nil {
			return err
		}
		if err := r.Expect("completed", "--- RESULT ---\n"+c.result); err != nil {
			return err
		}
	}
	return nil
}

// otherToken has bob look for what alice has.
func otherToken(s *session) error {
	alice, err := s.as("alice", mcpclient.Newer)
	if err != nil {
		return err
	}
	r, err := alice.call("execute_command_async", map[string]any{"command": "sleep 300", "wait_seconds": 0.1})
	if err != nil {
		return err
	}
	id := r.Header("Job ID")
	bob, err := s.as("bob", mcpclient.Newer)
	if err != nil {
		return err
	}
	for _, look := range [][2]string{{"list_jobs", "No jobs"}, {"list_variables", "No variables"}, {"list_files", "Entries: 0"}} {
		r, err := bob.call(look[0], nil)
		if err != nil {
			return err
		}
		if !strings.Contains(string(r), look[1]) {
			return fmt.Errorf("the reply does not contain %q", look[1])
		}
	}
	switch _, err := bob.call("cancel_job", map[string]any{"job_id": id}); {
	case err == nil:
		return errors.New("bob has cancelled a job of alice")
	case !errors.Is(err, mcpclient.ErrTool) || !strings.Contains(err.Error(), "No such job"):
		return err
	default:
		fmt.Fprintf(s.out, "   < %s\n", indent(err.Error(), "     "))
	}
	_, err = alice.call("cancel_job", map[string]any{"job_id": id})
	return err
}

// fileAndBack sends a file up, works on it and fetches the result.
func fileAndBack(s *session) error {
	files := s.over("alice", mcpclient.Newer)
	fmt.Fprintln(s.out, "   > PUT /files/numbers.txt")
	if err := files.PutFile(s.ctx, "numbers.txt", "1\n2\n3\n"); err != nil {
		return err
	}
	alice, err := s.as("alice", mcpclient.Newer)
	if err != nil {
		return err
	}
	const code = "with open('numbers.txt') as numbers, open('sum.txt', 'w') as out: print(sum(map(int, numbers)), file=out)"
	r, err := alice.call("execute_python", map[string]any{"code": code, "wait_seconds": 60})
	if err != nil {
		return err
	}
	if err := r.Expect("completed"); err != nil {
		return err
	}
	sum, err := files.GetFile(s.ctx, "sum.txt")
	fmt.Fprintf(s.out, "   > GET /files/sum.txt\n   < %s", sum)
	if err == nil && sum != "6\n" {
		err = fmt.Errorf("the file holds %q", sum)
	}
	return err
}
