package client

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

// A Process is a server in a child process, and the client that it serves. Close or Vanish ends the child process.
type Process struct {
	*Client
	server *exec.Cmd
	in     io.Closer
	out    *os.File
}

// Launch starts server, whose standard input and output it sets.
func Launch(server *exec.Cmd) (*Process, error) {
	in, err := server.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	out, theirs, err := os.Pipe() // StdoutPipe's reader would be closed by Wait before all is read
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	server.Stdout = theirs
	err = server.Start() // Start closes in if it fails
	theirs.Close()
	if err != nil {
		out.Close()
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	return &Process{Client: New(out, in), server: server, in: in, out: out}, nil
}

// Close ends the server's input, which ends the server and everything it started, and waits until
// it has exited.
func (p *Process) Close() error {
	p.in.Close() // an error means that the server has closed it already
	err := p.wait()
	p.out.Close()
	return err
}

// Vanish closes both ends of the connection at once, as the kernel does for a client that is killed, and waits
// until the child process has exited. An engine in a process of its own continues.
func (p *Process) Vanish() error {
	p.out.Close()
	p.in.Close() // an error means that the server has closed it already
	return p.wait()
}

func (p *Process) wait() error {
	if err := p.server.Wait(); err != nil {
		return fmt.Errorf("the server: %w", err)
	}
	return nil
}
