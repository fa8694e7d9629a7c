package pyrepl

import (
	"syscall"
	"time"

	"asyncrepl/internal/output"
)

// heldTime is how long a stream must be silent before the worker is asked to flush it. While there
// is output, the worker flushes by itself.
const heldTime = 50 * time.Millisecond

// flushHeld has the worker flush the text that it holds back, once the stream is silent. It waits for
// that because the signal ends a blocking call of C code early, and programs that print much would
// get many.
func (w *worker) flushHeld(ev heldEvent) {
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
