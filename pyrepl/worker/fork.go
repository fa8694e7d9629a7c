package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process"
	"asyncrepl/internal/runner"
	"asyncrepl/jobs"

	"github.com/oklog/ulid/v2"
)

// forkTime bounds a fork. It is longer than the limit of branch.py, after which the worker kills
// the forked processes and answers.
const forkTime = 10 * time.Second

// inspectAfter is the time after which a worker that has not forked yet is inspected: a signal can
// have stopped it after the fork was asked for.
const inspectAfter = time.Second

// cancelTime bounds the wait for a worker to end a fork that was cancelled.
const cancelTime = time.Second

// errGivenUp is the error of a fork whose context was done.
var errGivenUp = errors.New("the fork was given up because its job or its session is being ended")

// Fork forks an idle worker, as branch.py does it: the new worker continues with a copy of the
// namespace. It returns what the two share, in words. session is the name of the session of w, for
// errors in the new one. After any error w can be used as before. If ctx is done before the new
// worker is ready, the forked processes are killed.
func (w *Worker) Fork(ctx context.Context, owner *process.Owner, session string) (b *Worker, shared []string, err error) {
	w.mu.Lock()
	b = &Worker{
		events: make(chan Event), eof: make(chan struct{}), ending: make(chan struct{}),
		port: w.port, kick: func() {}, sockets: w.sockets, loop: w.loop,
	}
	w.mu.Unlock()
	if b.terminal, err = runner.OpenTerminal(); err != nil {
		return nil, nil, runner.Scarce(fmt.Errorf("a Python session needs a terminal: %w", err))
	}
	mark := ulid.Make().String()
	shared, pid, err := w.fork(ctx, b, mark, session)
	if err == nil {
		b.group, err = w.group.Another()
	}
	if err == nil {
		b.handle, err = owner.Adopt(pid, process.Spec{TTY: b.terminal.PTY, Mark: mark, Kills: b.group.Counter()})
	}
	if err != nil && ctx.Err() != nil {
		err = errGivenUp
	}
	if err != nil { // a branch that was forked sees its channel close, or gets SIGHUP
		if b.ch != nil {
			b.ch.close()
		}
		b.terminal.Close()
		b.group.Remove()
		return nil, nil, runner.Scarce(err)
	}
	b.connect()
	if err = b.group.Add(pid); err == nil { // it runs no user code before its first command
		err = b.awaitHello()
	}
	if err == nil {
		b.stackReader = w.stackReader.of(pid)
		return b, shared, nil
	}
	b.End(process.Ladder{From: jobs.Kill})
	if ctx.Err() != nil {
		err = errGivenUp
	}
	return nil, nil, err
}

// awaitHello waits for the hello of a branch, which is in the channel.
func (w *Worker) awaitHello() error {
	select {
	case <-w.events:
		return nil
	case <-w.handle.Done():
		return fmt.Errorf("the branch %s", w.ExitText())
	case <-w.eof:
		return errors.New("the branch closed its channel")
	}
}

// fork has w fork the process of b, which gets the terminal of b and a channel, and returns its
// pid. After an error the caller closes both.
func (w *Worker) fork(ctx context.Context, b *Worker, mark, session string) (shared []string, pid int, err error) {
	if w.Stopped() {
		return nil, 0, w.stoppedError()
	}
	var theirs, null *os.File
	if b.ch, theirs, err = newChannel(); err != nil {
		return nil, 0, err
	}
	defer theirs.Close() // while we hold it, our end never sees the end of file
	if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, 0, err
	}
	defer null.Close()
	if err := askSender(b.ch.conn); err != nil {
		return nil, 0, fmt.Errorf("forking a worker: %w", err)
	}
	answered, stopWaiting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWaiting()
	defer context.AfterFunc(ctx, func() {
		b.ch.close() // the worker sees it, and answers
		time.AfterFunc(cancelTime, stopWaiting)
	})()
	ev, err := w.ask(answered, func(n int) command {
		return forkCommand{N: n, Token: string(b.ch.token), Mark: mark, Session: session, Fds: 4}
	}, inspectAfter, theirs, b.terminal.Slave(), null, null)
	if errors.Is(err, ErrSilent) && !w.Stopped() {
		ev, err = w.await(answered, w.asked, forkTime)
	}
	switch {
	case err != nil && w.Stopped():
		return nil, 0, w.stoppedError()
	case errors.Is(err, ErrSilent):
		return nil, 0, fmt.Errorf("%w: a hook of os.register_at_fork may block it; restart the session", err)
	case err != nil:
		return nil, 0, err
	}
	theirs.Close()
	forked, _ := ev.(forkedEvent)
	if forked.Error != "" {
		return nil, 0, errors.New(forked.Error)
	}
	b.ch.conn.SetReadDeadline(time.Now().Add(forkTime))
	defer b.ch.conn.SetReadDeadline(time.Time{})
	pid, err = sender(b.ch.conn)
	switch {
	case errors.Is(err, io.EOF):
		return nil, 0, errors.New("the branch ended before it was ready")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, 0, fmt.Errorf("the branch did not answer for %v", forkTime)
	case err != nil:
		return nil, 0, fmt.Errorf("waiting for the branch: %w", err)
	}
	return forked.Shared, pid, nil
}

// Stopped reports whether a signal such as SIGSTOP has stopped the process.
func (w *Worker) Stopped() bool {
	st, err := procfs.Inspect(w.handle.PID())
	return err == nil && st.Stopped() && !st.Ended()
}

// stoppedError says that the process is stopped, and how to continue it.
func (w *Worker) stoppedError() error {
	pid := w.handle.PID()
	return fmt.Errorf("its process %d was stopped by a signal; kill -CONT %d continues it", pid, pid)
}
