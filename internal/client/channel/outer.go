//go:build linux

package channel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
)

// An Outer is the end of the channel that is outside the sandbox.
type Outer struct {
	*end
	around sockets.Surroundings
	born   chan struct{}  // closed when the engine runs
	asking atomic.Bool    // the other engines are being asked
	conns  sync.WaitGroup // goroutines that accept connections or ask the other engines

	// proxy is the listener at which jobs reach the proxy. It is set before born is closed.
	proxy net.Listener

	mu   sync.Mutex
	door sockets.Door // nil: the engine does not listen
}

// New makes a channel. The file is the engine's end, which its process inherits; the caller closes it.
func New(around sockets.Surroundings) (*Outer, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	inner := os.NewFile(uintptr(fds[1]), "the engine's end")
	e, err := open(os.NewFile(uintptr(fds[0]), "the outer end"))
	if err != nil {
		inner.Close()
		return nil, nil, err
	}
	return &Outer{end: e, around: around, born: make(chan struct{})}, inner, nil
}

// Born returns a channel that is closed when the engine runs.
func (o *Outer) Born() <-chan struct{} { return o.born }

// Proxy returns the listener at which jobs reach the proxy, or nil. The engine must run.
func (o *Outer) Proxy() net.Listener { return o.proxy }

// Serve gives the engine what it needs at its start, and what it asks for, until it ends. Then nothing
// can connect any more.
func (o *Outer) Serve(b Birth) error {
	f, err := b.file()
	if err == nil {
		err = o.note(kindBirth, f)
	}
	f.Close()
	if err != nil {
		o.Close()
		close(o.done)
		return err
	}
	o.serve(map[string]func(incoming){
		kindBorn: o.handleBorn, kindListen: o.handleListen, kindShut: o.handleShut,
		kindTouch: o.handleTouch, kindFound: o.handleFound, kindOthers: o.handleOthers,
	})
	o.shut()
	o.conns.Wait()
	return nil
}

// End asks the engine to end, as a signal does.
func (o *Outer) End() error { return o.note(kindEnd, nil) }

// Leave notifies the engine that its tenant has no token any more, or has one again.
func (o *Outer) Leave(leaves bool) error {
	if leaves {
		return o.note(kindLeave, nil)
	}
	return o.note(kindStay, nil)
}

// Dial connects to the engine, which gets the connection from the listener of [Inner.Relayed].
func (o *Outer) Dial(context.Context) (net.Conn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("making a socket pair: %w", err)
	}
	theirs, ours := os.NewFile(uintptr(fds[1]), "the engine's end"), os.NewFile(uintptr(fds[0]), "the relay's end")
	defer theirs.Close()
	defer ours.Close()
	if err := o.note(kindRelay, theirs); err != nil {
		return nil, ErrGone
	}
	return net.FileConn(ours)
}

// Denied says that the proxy has refused a connection from a port of the loopback inside. It returns when
// the engine has found out which process that is, which must keep the connection as long.
func (o *Outer) Denied(ctx context.Context, d Denial) error {
	return o.ask(ctx, kindDenied, d, nil)
}

// handleBorn notes that the engine runs. Only its first message counts.
func (o *Outer) handleBorn(m incoming) {
	select {
	case <-o.born:
		return
	default:
	}
	if m.file != nil {
		if l, err := net.FileListener(m.file); err == nil {
			o.proxy = l
		}
	}
	close(o.born)
}

// handleListen begins to accept connections for the engine.
func (o *Outer) handleListen(m incoming) {
	o.shut()
	door, err := o.around.Listen()
	if err != nil {
		m.answer(nil, err)
		return
	}
	o.mu.Lock()
	o.door = door
	o.mu.Unlock()
	o.conns.Go(func() { // joined by Serve; ends when the door is closed
		for {
			c, err := door.Accept()
			if err != nil {
				return
			}
			o.hand(c)
		}
	})
	m.answer(nil, nil)
}

// hand gives the engine a connection.
func (o *Outer) hand(c *sockets.Conn) {
	defer c.Close()
	if f, err := c.File(); err == nil {
		o.note(kindClient, f) // an error: the engine has ended
		f.Close()
	}
}

// shut closes the door, if there is one.
func (o *Outer) shut() {
	o.mu.Lock()
	door := o.door
	o.door = nil
	o.mu.Unlock()
	if door != nil {
		door.Close()
	}
}

func (o *Outer) handleShut(m incoming) {
	o.shut()
	m.answer(nil, nil)
}

func (o *Outer) handleTouch(m incoming) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.door != nil {
		o.door.Touch()
	}
}

func (o *Outer) handleFound(m incoming) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m.answer(o.door != nil && o.door.Found(), nil)
}

// othersTime bounds the question to the other engines.
const othersTime = 4 * time.Second

// mostOthers bounds the engines whose state is reported.
const mostOthers = 100

// An other is another engine of the workspace.
type other struct {
	Name    sockets.Name
	Welcome sockets.Welcome
}

// handleOthers answers with the state of the other engines of the workspace. While they are asked, a
// second question is refused.
func (o *Outer) handleOthers(m incoming) {
	if !o.asking.CompareAndSwap(false, true) {
		m.answer(nil, errors.New("the others are being asked"))
		return
	}
	o.conns.Go(func() { // joined by Serve; ends when the others have answered
		ctx, cancel := context.WithTimeout(context.Background(), othersTime)
		defer cancel()
		var list []other
		o.around.Others(ctx, func(name sockets.Name, w sockets.Welcome) {
			if len(list) < mostOthers {
				w.Version = "" // it could be long, and is not asked for
				list = append(list, other{name, w})
			}
		})
		o.asking.Store(false)
		m.answer(list, nil)
	})
}
