package worker

import (
	"syscall"
	"time"

	"asyncrepl/internal/output"
)

// heldTime is how long a stream must be silent before the worker is asked to flush it. While code
// prints much, the worker's buffer fills up and is written out anyway.
const heldTime = 50 * time.Millisecond

// flushHeld asks the worker, by SIGIO, to flush the text that it holds back. It waits until the
// stream is silent, because each signal ends a blocking call of C code early
// (https://man7.org/linux/man-pages/man7/signal.7.html), and a program that prints much would get
// many.
func (w *Worker) flushHeld(ev heldEvent) {
	stream := output.Stdout
	if ev.Stream == "err" {
		stream = output.Stderr
	}
	var check func()
	check = func() {
		w.mu.Lock()
		quiet := time.Since(w.wrote[stream])
		w.mu.Unlock()
		if quiet < heldTime {
			time.AfterFunc(heldTime-quiet, check)
			return
		}
		w.handle.Signal(syscall.SIGIO) // an error: the worker has ended
	}
	time.AfterFunc(heldTime, check)
}
