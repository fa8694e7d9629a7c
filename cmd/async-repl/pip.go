//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"asyncrepl/pkgmgr"
)

// pipCommand is the subcommand of the programs pip and pip3 in the PATH of jobs. Only their scripts
// use it, so help does not name it.
const pipCommand = "pip"

// pip executes the pip of the environment that the sessions run. Its arguments are the path of the
// settings, then the arguments of pip. It returns only if it fails.
func pip(ctx context.Context, args []string, std standardStreams) int {
	if len(args) == 0 {
		fmt.Fprintln(std.err, "async-repl: pip is for jobs: see async-repl help")
		return 2
	}
	ctx, release := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer release()
	err := pkgmgr.RunPip(ctx, args[0], args[1:], os.Environ(), func(s string) { fmt.Fprint(std.err, s) })
	if ctx.Err() != nil || errors.Is(err, pkgmgr.ErrInterrupted) {
		err = pkgmgr.ErrInterrupted
	}
	fmt.Fprintln(std.err, "pip:", err)
	return 1
}
