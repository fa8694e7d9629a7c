package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// cutCommand has the test binary play a carrier that can be cut within a frame of HTTP/2. Its arguments are a
// directory and a command, which it runs. In the directory, a file with the name of a direction orders the cut, and
// has the part of a write that still gets through, in percent.
const cutCommand = "carrier-that-is-cut"

// The directions in which a carrier is cut.
var cutDirections = []string{"there", "back"}

// playCarrier is that carrier. It passes on what goes in and out.
func playCarrier(args []string) int {
	cmd := exec.Command(args[1], args[2:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() { // owned by this process; ends with the input, or with the process
		copyUntilCut(in, os.Stdin, filepath.Join(args[0], cutDirections[0]))
		in.Close()
	}()
	var back sync.WaitGroup
	back.Go(func() { copyUntilCut(os.Stdout, out, filepath.Join(args[0], cutDirections[1])) }) // joined below
	back.Wait()
	cmd.Wait()
	return max(0, cmd.ProcessState.ExitCode())
}

// copyUntilCut copies. Each write of a connection begins with the header of a frame, or is in the middle of one. So
// the process ends within a frame, as a machine that loses its link, with what it has started.
func copyUntilCut(to io.Writer, from io.Reader, order string) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		var percent int
		if text, err := os.ReadFile(order); err == nil && n > 1 {
			fmt.Sscan(string(text), &percent)
			to.Write(b[:max(1, (n-1)*percent/100)])
			os.Remove(order)
			syscall.Kill(0, syscall.SIGKILL) // its process group: the carrier has one of its own
		}
		if _, failed := to.Write(b[:n]); err != nil || failed != nil {
			if err != nil && !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, err)
			}
			return
		}
	}
}
