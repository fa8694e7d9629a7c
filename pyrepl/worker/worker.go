package worker

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/listening"
	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/internal/process/cgroup"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/terminal/pump"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
)

// A Worker is a Python process that holds a session's namespace.
type Worker struct {
	handle      *process.Handle
	group       *cgroup.Group // nil: it has the server's
	ports       *listening.Tree
	terminal    *runner.Terminal
	ch          *channel
	events      chan Event    // the channel's reader sends, the turn's holder receives
	eof         chan struct{} // closed when the channel has ended
	unread      bool          // the worker had not read all input; set before eof is closed
	ending      chan struct{} // closed by End: no caller takes events any more
	once        sync.Once     // closes ending
	raised      atomic.Int64  // RaisedEvents that the channel's reader has read
	stackReader *stackReader  // nil until the worker has said hello

	// Used by the holder of the turn.
	asked    int                       // numbered commands so far
	children *procfs.ChildList         // nil: it could not be opened
	earlier  map[processKey]bool       // descendants of the worker when the running job began
	files    int                       // files that the worker had open then, see opened
	left     map[uint64]netip.AddrPort // the sockets of the last LoopServers
	made     *jobPipes                 // the next job's pipes; nil: not opened yet

	// Guarded by mu.
	mu      sync.Mutex
	port    *jobs.Port                // the running or last job; output of no known job goes there
	kick    func()                    // notifies the watcher of the running job of output
	pumps   []*pump.Pump              // read the pipes of jobs that some process still holds open
	pools   []*pump.Pump              // read what processes of pools print; nil: there is no pool
	wrote   [output.TTY + 1]time.Time // the time of the last output on each stream, of any job
	sockets bool                      // a job can have opened sockets
	loop    int                       // the descriptor of the event loop's epoll set; 0: there is none
	sink    *display.Sink             // the sink of the last job that has shown something; or nil
}

// Process returns the worker's process.
func (w *Worker) Process() *process.Handle { return w.handle }

// Ended reports whether the process has ended.
func (w *Worker) Ended() bool { return runner.Ended(w.handle) }

// ExitText says how the process ended: "was killed by SIGSEGV", "exited 7".
func (w *Worker) ExitText() string {
	x := w.handle.Exit()
	switch {
	case x.OOM:
		return "was killed by the kernel (out of memory)"
	case x.Signal != 0:
		return "was killed by " + runner.SignalName(x.Signal)
	}
	return fmt.Sprintf("exited %d", x.Code)
}

// LastJob returns the id of the job that the worker ran last. Ids grow with time.
func (w *Worker) LastJob() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.port.ID()
}

// read reads pipes into the output of p, for as long as any process holds their write ends.
func (w *Worker) read(p *jobs.Port, pipes *jobPipes) {
	into := func(s output.Stream) func([]byte) {
		return func(b []byte) {
			p.Write(s, b)
			w.printed(p, s)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	open := w.pumps[:0]
	for _, old := range w.pumps {
		select {
		case <-old.Done():
		default:
			open = append(open, old)
		}
	}
	out := pump.New(pipes.out.r, into(output.Stdout))
	w.pumps = append(open, out, pump.New(pipes.errs.r, pump.After(out, into(output.Stderr))))
}

// readPools reads pipes into the output of the job that runs when something comes, or of the last
// one: processes of a pool work for whatever job has given them work. Other files are refused.
func (w *Worker) readPools(fds []int) {
	var files []*os.File
	for _, fd := range fds {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			continue
		}
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			continue // this process has no descriptor left; without a reader the pool's prints fail
		}
		unix.SetNonblock(own, true)
		files = append(files, os.NewFile(uintptr(own), "pipe of pools"))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(files) != 2 || w.pools != nil {
		for _, f := range files {
			f.Close()
		}
		return
	}
	into := func(s output.Stream) func([]byte) {
		return func(b []byte) {
			p := w.current()
			p.Write(s, b)
			w.printed(p, s)
		}
	}
	out := pump.New(files[0], into(output.Stdout))
	w.pools = []*pump.Pump{out, pump.New(files[1], pump.After(out, into(output.Stderr)))}
}

// current returns the port of the running job, or of the last one.
func (w *Worker) current() *jobs.Port {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.port
}

// connect connects the terminal to the worker's process, and begins to watch what the process opens
// and starts.
func (w *Worker) connect() {
	w.terminal.Connect(w.handle, w.current, func(p *jobs.Port) { w.printed(p, output.TTY) })
	w.ports = listening.NewTree(w.handle.Tree)
	w.children, _ = procfs.OpenChildList(w.handle.PID()) // after an error each job scans
	go w.listen()                                        // owned by the worker; ends when the channel does, see End
}

// printed notes output of p's job, and notifies the job's watcher if it is running.
func (w *Worker) printed(p *jobs.Port, s output.Stream) {
	now := time.Now()
	w.mu.Lock()
	w.wrote[s] = now
	kick := w.kick
	running := w.port == p
	w.mu.Unlock()
	if running {
		kick()
	}
}

// Drain reads what the pipes and the terminal hold now.
func (w *Worker) Drain() {
	w.mu.Lock()
	pumps := append(append([]*pump.Pump{w.terminal.Screen}, w.pumps...), w.pools...)
	w.mu.Unlock()
	for _, p := range pumps {
		p.Drain()
	}
}

// End ends the worker and everything that its jobs left behind as l says, and closes what belongs
// to it. It reports which rungs were needed and what could not be ended.
func (w *Worker) End(l process.Ladder) process.StopResult {
	w.once.Do(func() { close(w.ending) })
	result := w.handle.Stop(l)
	w.ch.close()
	<-w.eof
	w.terminal.CloseSlave()
	w.Drain()
	w.closePipes()
	w.terminal.Close()
	w.children.Close()
	w.handle.Forget()
	w.group.Remove()
	return result
}

// closePipes closes the pipes of all jobs. It does not hold mu meanwhile: a pump that is reading,
// because a process still writes, needs mu to end.
func (w *Worker) closePipes() {
	w.mu.Lock()
	pumps, made := append(w.pumps, w.pools...), w.made
	w.pumps, w.pools, w.made = nil, nil, nil
	w.mu.Unlock()
	for _, p := range pumps {
		p.Close()
	}
	if made != nil {
		made.close()
	}
}
