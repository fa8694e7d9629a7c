//go:build unix

package carry

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/process/child"
)

// A Pipe is the connection to our program at a place: the standard input and output of a carrier. One
// goroutine at a time reads. Nothing stands between its methods and the pipes.
type Pipe struct {
	in, out, err *os.File // our ends
	carrier      *child.Child
	name         string // the carrier, as Spec.Argv names it
	words        Words  // the carrier's standard error
	rest         []byte // our program sent this before Open returned

	close   sync.Once
	killed  chan struct{} // closed by Close
	ended   chan struct{} // closed when the carrier has ended
	drained chan struct{} // closed when its standard error has no writer left
	reaped  chan struct{} // closed when its process group is gone
	status  syscall.WaitStatus
}

// start starts the carrier of s.
func start(s Spec) (*Pipe, error) {
	argv := append(append([]string(nil), s.Argv...), "/bin/sh")
	path, err := child.LookPath(argv[0], s.Env)
	if err != nil {
		return nil, err
	}
	var ours, theirs [3]*os.File
	defer func() {
		closeAll(theirs[:])
		if err != nil {
			closeAll(ours[:])
		}
	}()
	for i := range ours {
		r, w, e := os.Pipe()
		if err = e; err != nil {
			return nil, err
		}
		if ours[i], theirs[i] = r, w; i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	p := &Pipe{
		in: ours[0], out: ours[1], err: ours[2], name: argv[0],
		killed: make(chan struct{}), ended: make(chan struct{}), drained: make(chan struct{}), reaped: make(chan struct{}),
	}
	attr := &os.ProcAttr{Env: s.Env, Files: theirs[:], Sys: &syscall.SysProcAttr{Setpgid: true}}
	if p.carrier, err = child.Start(path, argv, attr); err != nil {
		return nil, err
	}
	go p.listen() // owned by the pipe; ends when no process has the carrier's standard error, or at Close
	go p.follow() // owned by the pipe, Close waits for it; ends when the carrier's group is gone
	return p, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// listen keeps the last words of the carrier. It reads all of them, because a carrier would wait for a full
// pipe.
func (p *Pipe) listen() {
	defer close(p.drained)
	b := make([]byte, 4096)
	for {
		n, err := p.err.Read(b)
		p.words.Write(b[:n])
		if err != nil {
			return
		}
	}
}

// follow reaps the carrier and the processes that it leaves, such as the program of ssh's ProxyCommand. They are
// orphans in our session, and no other part of this program reaps them.
func (p *Pipe) follow() {
	defer close(p.reaped)
	p.carrier.AwaitEnd()
	close(p.ended)
	<-p.killed
	p.status = p.carrier.Reap()
	for group := p.carrier.Self().PID; ; {
		if _, err := unix.Wait4(-group, nil, 0, nil); err != nil && err != unix.EINTR {
			return // no process is left, or no child of ours
		}
	}
}

const (
	// closeTime bounds the wait of Close for processes that SIGKILL does not end: those that the kernel holds,
	// or that became another user's. They have lost their pipes.
	closeTime = 2 * time.Second

	// wordsTime bounds its wait for the last words, if a process that left the group holds the pipe.
	wordsTime = 100 * time.Millisecond
)

// Close ends the carrier and its process group and reaps them. It can be called several times. The error is
// always nil.
func (p *Pipe) Close() error {
	p.close.Do(func() {
		p.in.Close()
		p.out.Close()
		p.carrier.SignalGroup(syscall.SIGKILL) // an error: it became another user's, and ends by the closed pipes
		close(p.killed)
		within(closeTime, p.reaped)
		within(wordsTime, p.drained)
		p.err.Close()
	})
	return nil
}

// within waits until done is closed, at most for limit.
func within(limit time.Duration, done <-chan struct{}) {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// await waits until the carrier has ended and its standard error has been read, for about a second at most.
func (p *Pipe) await() {
	within(time.Second, p.ended)
	within(wordsTime, p.drained)
}

// Read reads what our program there sends.
func (p *Pipe) Read(b []byte) (int, error) {
	if len(p.rest) > 0 {
		n := copy(b, p.rest)
		p.rest = p.rest[n:]
		return n, nil
	}
	return p.out.Read(b)
}

// Write sends b to our program there.
func (p *Pipe) Write(b []byte) (int, error) { return p.in.Write(b) }

// SetDeadline, with its two parts, does what [net.Conn] says.
func (p *Pipe) SetDeadline(t time.Time) error {
	if err := p.SetReadDeadline(t); err != nil {
		return err
	}
	return p.SetWriteDeadline(t)
}

func (p *Pipe) SetReadDeadline(t time.Time) error  { return p.out.SetReadDeadline(t) }
func (p *Pipe) SetWriteDeadline(t time.Time) error { return p.in.SetWriteDeadline(t) }

// LocalAddr and RemoteAddr name the carrier.
func (p *Pipe) LocalAddr() net.Addr  { return addr(p.name) }
func (p *Pipe) RemoteAddr() net.Addr { return addr(p.name) }

type addr string

func (addr) Network() string  { return "carrier" }
func (a addr) String() string { return string(a) }
