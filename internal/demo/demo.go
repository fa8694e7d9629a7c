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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/release/wheel"
	"asyncrepl/internal/serve/tokens"
)

// A Program is the program of the server, as the demo starts it.
type Program struct {
	Path string
	Env  []string // the environment; it must have no settings, which would change the replies
}

// Run plays a script in a new workspace, with a server over stdio and another one over HTTP, and
// prints the calls and their replies. It returns nil only if every step passed.
func (p Program) Run(ctx context.Context, script string, stdout, stderr io.Writer) error {
	steps, err := parse(script)
	if err != nil {
		return fmt.Errorf("reading the script: %w", err)
	}
	dir, err := os.MkdirTemp("", "async-repl-demo-")
	if err != nil {
		return fmt.Errorf("making a workspace: %w", err)
	}
	defer os.RemoveAll(dir)
	workspace := filepath.Join(dir, "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		return fmt.Errorf("making a workspace: %w", err)
	}
	// The script installs these two, so it needs no network.
	for _, name := range []string{"greeting", "farewell"} {
		source := "def to(name):\n    return f'A " + name + " to {name}, from a wheel'\n"
		if _, err := wheel.OfModule(name, "1.0", source).Save(workspace); err != nil {
			return fmt.Errorf("building a wheel: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	stderr = &shared{w: stderr}
	home, err := newHome(p, dir)
	if err != nil {
		return fmt.Errorf("making a home directory: %w", err)
	}
	defer home.close()
	far, err := newFar(dir)
	if err != nil {
		return fmt.Errorf("making a place: %w", err)
	}
	defer far.awaitEnd() // before its directory is removed
	start := func(setting string) (*client.Process, error) {
		server := p.command(ctx, workspace, filepath.Join(dir, "state"))
		switch setting {
		case "":
		case withPlaces:
			server = p.command(ctx, far.near, far.near+"-state")
			server.Env = append(server.Env, "REPL_PLACES="+far.file)
		default:
			server = home.command(ctx)
			server.Env = append(server.Env, setting)
		}
		server.Env = append(server.Env, "REPL_LINGER=1m") // also if CI is set
		server.Stderr = stderr
		server.WaitDelay = 5 * time.Second
		c, err := client.Launch(server)
		if err != nil {
			return nil, err
		}
		if err := c.Initialize(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
	c, err := start("")
	if err != nil {
		return err
	}
	played := &player{ctx: ctx, start: start, stdio: c, home: home, out: stdout, ids: make(ids)}
	if played.many, err = p.serveTwo(ctx, dir, stderr); err == nil {
		fmt.Fprintf(stdout, "async-repl demo: a server in a new workspace, over stdio; at the end another one, over HTTP\n")
		err = errors.Join(played.play(steps), played.many.close())
	}
	return errors.Join(err, played.stdio.Close())
}

// A shared writer can be written to by several goroutines at once.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// command returns the command of a server with its workspace and its state directory.
func (p Program) command(ctx context.Context, workspace, state string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, p.Path, args...)
	c.Dir = workspace
	c.Env = append(slices.Clip(p.Env), "REPL_WORKDIR="+workspace, "REPL_STATE_DIR="+state,
		"LESSHISTFILE=-") // or less would leave its history in the home directory
	return c
}

// A manyServer is a server over HTTP that the clients of two tenants share.
type manyServer struct {
	cmd    *exec.Cmd
	url    string
	tokens map[string]string // the token of each tenant
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
		"serve", "-listen", "127.0.0.1:0", "-tokens", path, "-trusted-tenants", "-page", "-toolsets", "core,files")
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
