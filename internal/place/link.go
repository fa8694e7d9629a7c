package place

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/far"
)

// A link is one HTTP/2 connection to an engine, over a carrier.
type link struct {
	client *far.Client
	conn   *http.ClientConn
	pipe   *timed
	lost   chan struct{} // closed when it carries nothing any more
	once   sync.Once
}

// join starts a carrier.
func join(ctx context.Context, spec carry.Spec) (net.Conn, far.Greeting, error) {
	pipe, greeting, err := carry.Open(ctx, spec)
	if err != nil {
		return nil, greeting, err // not a nil *carry.Pipe in an interface
	}
	return pipe, greeting, nil
}

// openLink opens a link by a carrier.
func (ps *Places) openLink(ctx context.Context, spec carry.Spec) (*link, far.Greeting, error) {
	pipe, greeting, err := ps.join(ctx, spec)
	if err != nil {
		return nil, greeting, err
	}
	l := &link{pipe: &timed{Conn: pipe}, lost: make(chan struct{})}
	l.pipe.note()
	if l.conn, err = far.Connect(ctx, l.pipe); err != nil {
		pipe.Close()
		return nil, greeting, err
	}
	l.client = far.NewClient(l.conn.RoundTrip, greeting.Start)
	l.conn.SetStateHook(func(c *http.ClientConn) {
		if c.Err() != nil {
			l.once.Do(func() { close(l.lost) })
		}
	})
	if l.conn.Err() != nil { // before the hook was set
		l.once.Do(func() { close(l.lost) })
	}
	return l, greeting, nil
}

// close ends the carrier.
func (l *link) close() {
	l.conn.Close()
	l.pipe.Close()
	l.once.Do(func() { close(l.lost) })
}

// awaitRetry waits before something is tried again: for retryWait, or until the link is lost, because a lost link is
// replaced at once, or until ctx is done.
func (l *link) awaitRetry(ctx context.Context) {
	select {
	case <-l.lost:
	case <-time.After(retryWait):
	case <-ctx.Done():
	}
}

// heard returns when something came over the link last.
func (l *link) heard() time.Time { return time.Unix(0, l.pipe.last.Load()) }

// A timed connection notes when bytes were read last.
type timed struct {
	net.Conn
	last atomic.Int64 // nanoseconds since 1970
}

func (t *timed) note() { t.last.Store(time.Now().UnixNano()) }

func (t *timed) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	if n > 0 {
		t.note()
	}
	return n, err
}
