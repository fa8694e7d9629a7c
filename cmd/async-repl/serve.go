//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"asyncrepl/internal/mcpserver"
	"asyncrepl/internal/stdio"
	"asyncrepl/jobs"
)

// exitTime is how long the server may take from the first signal to its exit.
// A client kills it half a second after the first one; what is not ended by
// then is the guard's.
const exitTime = 380 * time.Millisecond

// streams are standard input and output as one stream.
type streams struct {
	io.Reader
	io.Writer
	closers []io.Closer
}

func (s streams) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// connect serves the one client of the server until the client leaves. When ctx is done, calls in
// flight are answered at once with the current status.
func connect(ctx context.Context, eng *engine, in io.ReadCloser, out io.WriteCloser, log *slog.Logger) error {
	waits, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	transport := &stdio.Transport{
		Stream:  streams{in, out, []io.Closer{in, out}},
		Ordered: true, Cut: ctx, Leave: leave, Log: log,
	}
	session, err := mcpserver.New(waits, eng.shared, eng.scope()).Connect(context.WithoutCancel(ctx), transport, nil)
	if err != nil {
		return err
	}
	return session.Wait()
}

// serve serves one client over in and out. At the end of input, and when out
// can't be written any more, the calls in flight are answered as they would be
// (the transport bounds that) and then everything ends. A signal cuts it short:
// calls are answered at once with the present status, and the process is gone
// within exitTime.
func serve(ctx context.Context, set settings, environ []string, in io.ReadCloser, out io.WriteCloser, stderr io.Writer) error {
	log := slog.New(slog.NewTextHandler(newLogWriter(stderr), &slog.HandlerOptions{Level: set.logLevel}))
	signals := make(chan os.Signal, 1) // one is enough: the first decides
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	// Taken, not ignored: children would inherit that. The failing write is
	// what counts.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	defer signal.Stop(pipes)
	os.Stdout = os.Stderr // standard output belongs to the protocol

	if lacks != "" {
		log.Warn("not every promise is kept here", "platform", lacks)
	}
	eng, err := newEngine(set, environ, log)
	if err != nil {
		return err
	}
	cut, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1) // room for the one result, so that nobody need wait for it
	go func() {                   // owned by serve; ends with the connection, or with the process after a signal
		served <- connect(cut, eng, in, out, log)
	}()
	select {
	case err := <-served:
		eng.close()
		if err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("serving: %w", err)
		}
		return nil
	case sig := <-signals:
		log.Info("ending on a signal", "signal", sig.String())
	case <-ctx.Done():
	}
	cancel()
	late := time.NewTimer(exitTime)
	defer late.Stop()
	closed := make(chan struct{})
	go func() { // owned by serve; ends with the engine, or with the process
		defer close(closed)
		eng.close()
		<-served
	}()
	select {
	case <-closed:
	case <-late.C:
		log.Warn("not everything had ended in time: the rest is the guard's")
	}
	return nil
}

// close ends everything that the engine started.
func (e *engine) close() {
	done := make(chan struct{})
	go func() { // joined below
		defer close(done)
		e.shared.Jobs.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Terminate, Step: shutdownStep})
	}()
	e.owner.Shutdown()
	<-done
	e.closeSessions()
}

// shutdownStep is the time between the two rungs of a shutdown.
const shutdownStep = 150 * time.Millisecond
