//go:build linux

package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"asyncrepl/internal/client/sockets"
)

// The kinds of messages.
const (
	kindBirth  = "birth"  // a note to the engine, with a file that has the Birth
	kindBorn   = "born"   // a note to the outer process, with the socket of the proxy if there is one
	kindListen = "listen" // a request to the outer process
	kindShut   = "shut"   // a request to the outer process: accept no more connections
	kindTouch  = "touch"  // a note to the outer process: the client has left
	kindFound  = "found"  // a request to the outer process
	kindOthers = "others" // a request to the outer process
	kindClient = "client" // a note to the engine, with a connection
	kindRelay  = "relay"  // a note to the engine, with a connection of the relay
	kindDenied = "denied" // a request to the engine, with a Denial
	kindLeave  = "leave"  // a note to the engine: its tenant has no token any more
	kindStay   = "stay"   // a note to the engine: its tenant has one again
	kindEnd    = "end"    // a note to the engine: a signal ends it
)

// An Inner is the end of the channel that the engine has. It is the surroundings of a confined engine.
type Inner struct {
	*end
	Birth
	clients chan *sockets.Conn // connections for Accept
	ending  chan struct{}      // closed when a signal ends the engine
	denials chan incoming      // denials that Denials handles
	relayed chan net.Conn      // connections for Relayed
	leaving chan bool          // the newest value for Leaving
}

// A Denial is a connection that the proxy has refused.
type Denial struct {
	Target string // what a job asked the proxy for: "CONNECT evil.example:443"
	Port   int    // the port of the loopback that the connection comes from
}

// Join takes the end of the channel that the process has inherited, and closes the file. It returns when
// the outer process has sent the Birth.
func Join(f *os.File, limit time.Duration) (*Inner, error) {
	e, err := open(f)
	if err != nil {
		return nil, err
	}
	i := &Inner{end: e, clients: make(chan *sockets.Conn), ending: make(chan struct{}), denials: make(chan incoming, 16), relayed: make(chan net.Conn), leaving: make(chan bool, 1)}
	born := make(chan error, 1)
	var endOnce sync.Once
	go i.serve(map[string]func(incoming){ // ends with the outer process
		kindBirth: func(m incoming) {
			var err error
			i.Birth, err = readBirth(m.file)
			select {
			case born <- err:
			default:
			}
		},
		kindEnd:   func(incoming) { endOnce.Do(func() { close(i.ending) }) },
		kindLeave: func(incoming) { i.leave(true) },
		kindStay:  func(incoming) { i.leave(false) },
		kindDenied: func(m incoming) {
			select {
			case i.denials <- m:
			default:
				m.answer(nil, nil) // the engine hangs; the proxy need not wait
			}
		},
		kindClient: func(m incoming) {
			if c, err := sockets.FileConn(m.file); err == nil {
				go offer(i, i.clients, c) // ends when the engine accepts it, or with the channel
			}
		},
		kindRelay: func(m incoming) {
			if c, err := net.FileConn(m.file); err == nil {
				go offer(i, i.relayed, c) // ends when the engine accepts it, or with the channel
			}
		},
	})
	select {
	case err = <-born:
	case <-i.done:
		err = ErrGone
	case <-time.After(limit):
		err = fmt.Errorf("the process outside the sandbox said nothing within %v", limit)
	}
	if err != nil {
		i.Close()
		return nil, err
	}
	return i, nil
}

// offer offers a connection to the engine.
func offer[C net.Conn](i *Inner, to chan<- C, c C) {
	select {
	case to <- c:
	case <-i.done:
		c.Close()
	}
}

// Born says that the engine runs. proxy is the listener at which jobs reach the proxy, or nil; this
// process accepts nothing there.
func (i *Inner) Born(proxy *net.TCPListener) error {
	if proxy == nil {
		return i.note(kindBorn, nil)
	}
	f, err := proxy.File()
	if err != nil {
		return err
	}
	defer f.Close()
	return i.note(kindBorn, f)
}

// Ending returns a channel that is closed when a signal ends the engine.
func (i *Inner) Ending() <-chan struct{} { return i.ending }

// leave makes leaving hold the newest news.
func (i *Inner) leave(leaves bool) {
	select {
	case <-i.leaving:
	default:
	}
	i.leaving <- leaves // has room: only this goroutine sends
}

// Leaving returns a channel that receives true if the tenant has no token any more, and false if it has one
// again.
func (i *Inner) Leaving() <-chan bool { return i.leaving }

// Gone reports whether the outer process has ended, also if Done is not closed yet.
func (i *Inner) Gone() bool { return i.note(kindTouch, nil) != nil }

// Denials calls note with each connection that the proxy refuses, until the outer process ends. The
// connection lasts until note returns.
func (i *Inner) Denials(note func(Denial)) {
	for {
		select {
		case m := <-i.denials:
			var d Denial
			json.Unmarshal(m.data, &d) // it comes from this program
			note(d)
			m.answer(nil, nil)
		case <-i.done:
			return
		}
	}
}

// PID returns the outer process.
func (i *Inner) PID() int { return i.Birth.Self.PID }

// Self returns the name of the engine.
func (i *Inner) Self() (sockets.Name, error) { return i.Birth.Self, nil }

// Listen lets others find the engine.
func (i *Inner) Listen() (sockets.Door, error) {
	if err := i.ask(context.Background(), kindListen, nil, nil); err != nil {
		return nil, err
	}
	return &door{inner: i, closed: make(chan struct{})}, nil
}

// Others asks the other engines of the workspace for their state.
func (i *Inner) Others(ctx context.Context, f func(sockets.Name, sockets.Welcome)) {
	var list []other
	if i.ask(ctx, kindOthers, nil, &list) != nil {
		return // the outer process is gone, or asks them already
	}
	for _, o := range list {
		f(o.Name, o.Welcome)
	}
}

// Relayed returns a listener that accepts the connections of [Outer.Dial].
func (i *Inner) Relayed() net.Listener {
	return &relayed{i, make(chan struct{}), sync.Once{}}
}

// A relayed accepts the connections of the relay.
type relayed struct {
	inner  *Inner
	closed chan struct{}
	once   sync.Once
}

func (r *relayed) Accept() (net.Conn, error) {
	select {
	case c := <-r.inner.relayed:
		return c, nil
	case <-r.closed:
		return nil, net.ErrClosed
	case <-r.inner.done:
		return nil, net.ErrClosed
	}
}

func (r *relayed) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}

func (r *relayed) Addr() net.Addr { return &net.UnixAddr{Name: "relay", Net: "unix"} }

// A door gets the connections that the outer process has accepted.
type door struct {
	inner  *Inner
	once   sync.Once
	closed chan struct{}
}

var errClosed = errors.New("the engine listens no longer")

func (d *door) Accept() (*sockets.Conn, error) {
	select {
	case c := <-d.inner.clients:
		return c, nil
	case <-d.closed:
		return nil, errClosed
	case <-d.inner.done:
		return nil, ErrGone
	}
}

func (d *door) Touch() { d.inner.note(kindTouch, nil) } // an error: the engine is ending, too

func (d *door) Found() bool {
	found := false
	err := d.inner.ask(context.Background(), kindFound, nil, &found)
	return err != nil || found
}

func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.inner.ask(context.Background(), kindShut, nil, nil)
}
