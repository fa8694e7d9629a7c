//go:build unix

package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A home is the home directory of a made-up person, for jobs that would do harm in a real one. It has a key
// and a .bashrc, and each call of its port is noted in the file calls.
type home struct {
	program Program
	dir     string
	port    net.Listener
	done    chan struct{} // closed when no call is taken any more
}

func newHome(p Program, dir string) (*home, error) {
	h := &home{program: p, dir: filepath.Join(dir, "home"), done: make(chan struct{})}
	err := errors.Join(os.MkdirAll(filepath.Join(h.dir, ".ssh"), 0o700), os.Mkdir(filepath.Join(dir, "confined"), 0o700))
	for name, text := range map[string]string{".ssh/id_ed25519": "a private key\n", ".bashrc": "alias ll='ls -l'\n", "calls": ""} {
		err = errors.Join(err, os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600))
	}
	if err != nil {
		return nil, err
	}
	if h.port, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	go func() { // owned by close, which waits for it; ends when the port is closed
		defer close(h.done)
		for {
			c, err := h.port.Accept()
			if err != nil {
				return
			}
			answer := "thank you\n"
			if err := os.WriteFile(filepath.Join(h.dir, "calls"), []byte("a job has called\n"), 0o600); err != nil {
				answer = err.Error()
			}
			io.WriteString(c, answer)
			c.Close()
		}
	}()
	return h, nil
}

func (h *home) close() {
	h.port.Close()
	<-h.done
}

// command returns the command of a server with this home directory. Its Python is the interpreter itself: the
// script that stands for one on some machines looks for it below the home directory.
func (h *home) command(ctx context.Context, args ...string) *exec.Cmd {
	dir := filepath.Dir(h.dir)
	c := h.program.command(ctx, filepath.Join(dir, "confined"), filepath.Join(dir, "confined-state"), args...)
	_, port, _ := net.SplitHostPort(h.port.Addr().String())
	c.Env = append(c.Env, "HOME="+h.dir, "PORT="+port)
	python := exec.CommandContext(ctx, "python3", "-c", "import sys; print(sys.executable)")
	python.Env = h.program.Env
	path, _ := python.Output() // an error: the replies show it
	for i, kv := range c.Env {
		if rest, ok := strings.CutPrefix(kv, "PATH="); ok && len(path) > 0 {
			c.Env[i] = "PATH=" + filepath.Dir(strings.TrimSpace(string(path))) + ":" + rest
		}
	}
	return c
}

// refusal returns why no sandbox can start here, or "" if one can.
func (h *home) refusal(ctx context.Context) (string, error) {
	check := h.command(ctx, "sandbox", "check")
	var stdout, stderr bytes.Buffer
	check.Stdout, check.Stderr = &stdout, &stderr
	err := check.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && stdout.Len() == 0 {
		return strings.TrimSpace(strings.TrimPrefix(stderr.String(), "async-repl: ")), nil
	} else if exit != nil { // it has started, and the step shows what does not hold
		return "", nil
	}
	return "", err
}
