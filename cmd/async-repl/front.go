//go:build unix

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/front"
	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/kernel/descriptor"
	"asyncrepl/internal/mcp/server"
)

// serveFront serves one client over the standard streams, by engines that are processes of their
// own, which attach returns. A signal ends it within exitTime; an engine that needs longer ends after
// it.
func serveFront(ctx context.Context, set settings, signals caughtSignals, std standardStreams, attach func(context.Context) (front.Engine, error)) error {
	os.Stdout = os.Stderr // standard output belongs to the protocol

	leave, cancel := context.WithCancel(ctx)
	defer cancel()
	config := front.Config{
		Stream: streams{std.in, std.out, signals.caught},
		// Without a backend it answers what depends on no engine.
		Server:     server.New(ctx, set.connection(nil, nil), engine.Scope{Grace: set.grace, Log: set.Log}),
		Alone:      server.Handshake,
		Attach:     attach,
		ReaderGone: func() bool { return readerGone(std.out) },
		Log:        set.Log,
	}
	served := make(chan error, 1) // buffered: it may come after the end of serveFront
	go func() {                   // owned by serveFront; ends with the connection, or with the process after a signal
		served <- front.Serve(leave, config)
	}()
	ended := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case err := <-served:
			return failure(err)
		case <-late:
			return nil
		case <-signals.hangups: // decides nothing: a client that closes its terminal says more in the next 40 ms
			set.Log.Info("the terminal is gone")
			continue
		case sig := <-signals.ends:
			set.Log.Info("ending on a signal", "signal", sig.String())
		case <-ended:
		}
		cancel()
		ended, signals.ends, late = nil, nil, time.After(exitTime)
	}
}

// killTime bounds the time between the end of the input and the end of the reader of the output if
// the client was killed. The kernel closes one pipe at a time, within a millisecond on a quiet
// machine; on a busy one the client can lose its processor in between. A client that has only
// closed the input waits that much longer for the end of its jobs.
const killTime = 50 * time.Millisecond

// readerGone reports whether the reader of the output has closed it, or does so within killTime.
func readerGone(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	gone := false
	err := descriptor.Use(f, func(fd int) error {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		for end := time.Now().Add(killTime); ; {
			n, err := unix.Poll(fds, max(0, int(time.Until(end).Milliseconds())))
			if err != unix.EINTR {
				gone = n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
				return err
			}
		}
	})
	return gone || err != nil
}

// engines are those that a front can attach.
type engines struct {
	*settings
	args []string  // the arguments that the front was started with
	log  io.Writer // receives the log of the engine
}

// lookTime bounds the search for an engine that can be taken over.
const lookTime = 2 * time.Second

// attach takes over an engine whose client is gone, or starts one.
func (e *engines) attach(ctx context.Context) (front.Engine, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return front.Engine{}, err
	}
	defer w.Close()
	go e.copyLog(r) // ends when no engine has the other end
	hello := sockets.Hello{
		Role: sockets.Client, Env: e.environ(), Umask: umask(), Grace: e.grace, Timeout: e.timeout,
		Toolsets: e.toolsets, MaxChars: e.maxChars, NoImages: e.noImages, LogLevel: e.logLevel, Stderr: w,
	}
	for range 2 {
		conn, busy := e.takeOver(ctx, &hello)
		if conn != nil {
			return front.Engine{Conn: conn, Ended: func() string { return "" }}, nil
		}
		if !busy {
			break
		}
		select { // the client of a busy engine can have left: its front says so after killTime
		case <-time.After(2 * killTime):
		case <-ctx.Done():
		}
	}
	engine, err := e.start(ctx, hello)
	if err == nil || e.sandbox.On {
		return engine, err
	}
	again := *e.settings
	if broken := again.readPlaces(); broken != nil { // its start has failed for that
		return engine, broken
	}
	return engine, fmt.Errorf("%w (a person can set REPL_KEEPER=off, which needs no second process)", err)
}

// takeOver connects to an engine of the same identity that no client has. If there is none, it reports
// whether others have clients. It notes the engines that speak another protocol in hello.
func (e *engines) takeOver(ctx context.Context, hello *sockets.Hello) (_ *sockets.Conn, busy bool) {
	limited, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	identity, err := e.identity()
	if err != nil {
		return nil, false
	}
	dirs, _ := sockets.OpenAll(places()) // an engine that can't listen says why in its status
	var older []string
	for _, dir := range dirs {
		defer dir.Close()
		names, _ := dir.Names() // an error means that there is none
		for _, name := range names {
			if name.Identity != identity {
				continue
			}
			conn, _, err := dir.Dial(limited, name, *hello)
			var other sockets.OtherProtocol
			switch {
			case err == nil:
				return conn, false
			case errors.As(err, &other):
				older = append(older, fmt.Sprintf("the engine of process %d is not resumed: it needs version %s of async-repl", name.PID, string(other)))
			case errors.Is(err, sockets.ErrBusy):
				busy = true
			case errors.Is(err, sockets.ErrGone), errors.As(err, new(sockets.Refusal)), ctx.Err() != nil:
				e.Log.Debug("an engine was not taken over", "name", name.String(), "error", err)
			default: // its jobs and variables are there, and the client will miss them
				e.Log.Warn("an engine was not taken over", "name", name.String(), "error", err)
			}
		}
	}
	hello.Older = strings.Join(older, "; ")
	return nil, busy
}

// bornTime bounds the start of an engine. It takes milliseconds on a quiet machine; a dead engine
// is noticed at once.
const bornTime = 10 * time.Second

// start starts an engine. It is born with its end of a socket pair and leads a session of its own.
func (e *engines) start(ctx context.Context, hello sockets.Hello) (front.Engine, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return front.Engine{}, fmt.Errorf("making a socket pair: %w", err)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	theirs := os.NewFile(uintptr(fds[1]), "the front")
	conn, err := sockets.FileConn(os.NewFile(uintptr(fds[0]), "the engine"))
	if err != nil {
		theirs.Close()
		return front.Engine{}, err
	}
	// The workspace is given last, which counts: the current directory can be removed.
	command := engineCommand
	if e.sandbox.On {
		command = outerCommand
	}
	cmd := exec.Command("/proc/self/exe", append(append([]string{command}, e.args...), "-workdir", e.Workspace)...)
	cmd.Args[0] = "async-repl"
	cmd.Dir, cmd.Stderr, cmd.ExtraFiles = "/", hello.Stderr, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	hello.Stderr, hello.Env = nil, nil // it is born with both, and an environment can be longer than a hello
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		conn.Close()
		return front.Engine{}, err
	}
	exited := make(chan struct{})
	go func() { // owned by the front, which can end earlier; ends with the engine
		defer close(exited)
		cmd.Wait()
	}()
	how := func() string {
		select {
		case <-exited:
			return cmd.ProcessState.String()
		case <-time.After(endedTime):
			return ""
		}
	}
	if _, err = conn.Greet(ctx, hello, bornTime); err != nil {
		conn.Close()
		return front.Engine{}, fmt.Errorf("%w (%s)", err, cmp.Or(how(), "it runs"))
	}
	return front.Engine{Conn: conn, Ended: how}, nil
}

// endedTime bounds the time between the end of a connection to an engine and that of its process,
// if the engine was killed.
const endedTime = time.Second

// copyLog copies the log of an engine, line by line, to a writer that drops lines rather than wait.
func (e *engines) copyLog(r *os.File) {
	defer r.Close()
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			e.log.Write(printable(line))
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// umask returns the mask of new files. The system has no call that only reads it.
func umask() int {
	mask := unix.Umask(0o077)
	unix.Umask(mask)
	return mask
}
