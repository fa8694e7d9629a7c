//go:build unix

package door

import (
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"asyncrepl/internal/place/far"
	"asyncrepl/internal/serve/listener"
)

// A Listener accepts the connections of servers, and knows how long there has been none.
type Listener struct {
	door     *Door
	l        *net.UnixListener
	greeting []byte
	log      *slog.Logger
	changed  chan struct{} // receives after each change of the visits

	// Guarded by mu.
	mu     sync.Mutex
	visits Visits
}

// Visits count the connections of servers.
type Visits struct {
	Now   int       // open connections
	Total int       // connections so far
	Left  time.Time // when a connection was closed last; zero: no connection was closed
}

// Listen listens at the socket of the key. The caller has the lock. The file of a socket exists before
// its process listens, so the socket gets its name by rename.
func (d *Door) Listen(g far.Greeting, log *slog.Logger) (*Listener, error) {
	os.Remove(d.at(newSuffix)) // a process of this key was killed
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.at(newSuffix), Net: "unix"})
	if err != nil {
		return nil, d.wrapped("listening at", "", err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Rename(d.at(newSuffix), d.at("")); err != nil {
		l.Close()
		return nil, d.wrapped("listening at", "", err)
	}
	return &Listener{door: d, l: l, greeting: far.Answer{Greeting: g}.Line(), log: log, changed: make(chan struct{}, 1)}, nil
}

// Accept returns the next connection of a process of our user, which has been greeted.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if err = listener.OwnPeer(c); err == nil {
			c.SetWriteDeadline(time.Now().Add(time.Second)) // the buffer of a new socket has room
			_, err = c.Write(l.greeting)
		}
		if err == nil {
			err = c.SetWriteDeadline(time.Time{})
		}
		if err != nil {
			l.log.Warn("a connection was refused", "error", err)
			c.Close()
			continue
		}
		l.note(1)
		return &visit{UnixConn: c, left: sync.OnceFunc(func() { l.note(-1) })}, nil
	}
}

// note notes that a connection has come or was closed.
func (l *Listener) note(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.visits.Now += n
	if n > 0 {
		l.visits.Total++
	} else {
		l.visits.Left = time.Now()
	}
	select {
	case l.changed <- struct{}{}:
	default: // the reader has not seen the last change yet
	}
}

// Visits returns the present counts.
func (l *Listener) Visits() Visits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.visits
}

// Changed receives after changes of the visits.
func (l *Listener) Changed() <-chan struct{} { return l.changed }

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return l.l.Addr() }

// Close removes the socket, so that no process connects any more, and stops listening.
func (l *Listener) Close() error {
	os.Remove(l.door.at("")) // an error: it is not there
	return l.l.Close()
}

// A visit is a connection that counts.
type visit struct {
	*net.UnixConn
	left func() // notes the end, once
}

func (v *visit) Close() error {
	defer v.left()
	return v.UnixConn.Close()
}
