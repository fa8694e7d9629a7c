//go:build unix

package door

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/place/far"
	"asyncrepl/internal/serve/listener"
)

// A Search says which engine Find must find.
type Search struct {
	// Start names the start of the engine that the server knows. If it is set, Find accepts no other engine and
	// starts none. Empty: any engine of the key.
	Start string
	// Launch starts the engine with the lock of its key and a file for its log, and returns a channel
	// that is closed when its process has ended. Nil: another process starts the engine.
	Launch func(lock, log *os.File) (ended <-chan struct{}, err error)
}

// ErrGone means that the engine of Search.Start has ended: no process holds its lock.
var ErrGone = errors.New("the engine is gone")

const (
	// bornTime bounds the start of an engine, and the wait for the end of one that ends.
	bornTime = 10 * time.Second
	// joinTime bounds the wait for an engine that another process starts. It is shorter than the time
	// that a carrier has.
	joinTime = 20 * time.Second
	// greetTime bounds the time from a connection to the engine's greeting.
	greetTime = 5 * time.Second
)

// Find returns a connection to the engine of the key, and its greeting. It starts the engine if there is
// none and s allows it.
func (d *Door) Find(ctx context.Context, s Search) (*Conn, far.Greeting, error) {
	limit := bornTime
	if s.Launch == nil && s.Start == "" {
		limit = joinTime
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		c, g, err := d.connect(limited)
		switch {
		case err == nil && s.Start != "" && g.Start != s.Start: // another engine holds the lock now
			c.Close()
			return nil, far.Greeting{}, ErrGone
		case err == nil:
			return c, g, nil
		case !errors.Is(err, errNone):
			return nil, far.Greeting{}, err
		case s.Start != "":
			lives, err := d.lives()
			if err == nil && !lives {
				err = ErrGone
			}
			if err != nil {
				return nil, far.Greeting{}, err
			}
		case s.Launch != nil:
			lock, err := d.take()
			if err == nil {
				defer lock.Close() // the engine has it, too
				return d.start(ctx, lock, s.Launch)
			}
			if !errors.Is(err, errHeld) {
				return nil, far.Greeting{}, err
			}
		}
		select {
		case <-time.After(pause):
		case <-limited.Done():
			return nil, far.Greeting{}, d.lateness(s, limit)
		}
	}
}

// lateness returns why no engine was found within limit.
func (d *Door) lateness(s Search, limit time.Duration) error {
	lives, err := d.lives()
	switch {
	case err != nil:
		return err
	case lives:
		return fmt.Errorf("a process holds %s, but no engine has answered at %s within %v: see %s", d.path(lockSuffix), d.path(""), limit, d.path(logSuffix))
	case s.Start != "":
		return ErrGone
	}
	return fmt.Errorf("no engine listens at %s, and none was started within %v", d.path(""), limit)
}

// start starts the engine. The caller has the lock.
func (d *Door) start(ctx context.Context, lock *os.File, launch func(lock, log *os.File) (<-chan struct{}, error)) (*Conn, far.Greeting, error) {
	ctx, cancel := context.WithTimeout(ctx, bornTime)
	defer cancel()
	d.clear()
	log, err := d.openLog()
	if err != nil {
		return nil, far.Greeting{}, err
	}
	defer log.Close()
	ended, err := launch(lock, log)
	if err != nil {
		return nil, far.Greeting{}, fmt.Errorf("starting the engine: %w", err)
	}
	for {
		c, g, err := d.connect(ctx)
		if !errors.Is(err, errNone) {
			return c, g, err
		}
		select {
		case <-time.After(pause):
		case <-ended:
			if d.locks(lock) { // it was killed; otherwise the files can be those of another one
				d.Leave()
			}
			return nil, far.Greeting{}, fmt.Errorf("the engine has ended at its start%s", lastLines(log))
		case <-ctx.Done():
			return nil, far.Greeting{}, fmt.Errorf("the engine does not listen within %v%s", bornTime, lastLines(log))
		}
	}
}

// maxWords bounds what an error repeats of the engine's log, in bytes.
const maxWords = 2000

// lastLines returns the end of a log, for an error.
func lastLines(log *os.File) string {
	info, err := log.Stat()
	if err != nil {
		return ""
	}
	words := make([]byte, min(info.Size(), maxWords))
	n, _ := log.ReadAt(words, info.Size()-int64(len(words))) // an error: it was cut meanwhile
	words = bytes.TrimSpace(words[:n])
	if n == maxWords {
		_, words, _ = bytes.Cut(words, []byte("\n")) // the first line is incomplete
	}
	if len(words) == 0 {
		return ", and its log is empty"
	}
	return ":\n" + string(words)
}

// A Conn is a connection to an engine that has greeted.
type Conn struct {
	*net.UnixConn
	in *bufio.Reader
}

// errNone means that no engine listens.
var errNone = errors.New("no engine listens")

// connect connects to the engine and reads its greeting. The error is errNone if none listens, also if
// it has ended before it has greeted.
func (d *Door) connect(ctx context.Context) (*Conn, far.Greeting, error) {
	info, err := os.Lstat(d.at(""))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, far.Greeting{}, errNone
	case err != nil:
		return nil, far.Greeting{}, d.wrapped("checking", "", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, far.Greeting{}, fmt.Errorf("%s is no socket, and an engine should listen there: remove it", d.path(""))
	}
	limited, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(limited, "unix", d.at(""))
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil, far.Greeting{}, errNone
	case errors.Is(err, unix.EAGAIN): // too many connect at once
		return nil, far.Greeting{}, errNone
	case err != nil:
		return nil, far.Greeting{}, fmt.Errorf("connecting to %s: %w", d.path(""), errors.Unwrap(err))
	}
	c := &Conn{UnixConn: conn.(*net.UnixConn)}
	c.in = bufio.NewReaderSize(c.UnixConn, bufferSize)
	g, err := c.greeting()
	if err != nil {
		c.Close()
		return nil, far.Greeting{}, err
	}
	return c, g, nil
}

// bufferSize is the number of bytes that are passed on at once.
const bufferSize = 128 << 10

// maxGreeting is the number of bytes that a greeting can have.
const maxGreeting = 4096

// greeting checks the other end of a connection and reads its first line.
func (c *Conn) greeting() (g far.Greeting, err error) {
	if err := listener.OwnPeer(c.UnixConn); err != nil {
		return g, fmt.Errorf("another user listens in our directory of sockets: %w", err)
	}
	c.SetReadDeadline(time.Now().Add(greetTime))
	line, err := c.in.ReadSlice('\n')
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return g, fmt.Errorf("the engine does not answer within %v", greetTime)
	case err != nil && len(line) == 0: // it ends
		return g, errNone
	case err != nil || len(line) > maxGreeting:
		return g, fmt.Errorf("what listens is no engine: it says %.80q", line)
	}
	rest, ok := bytes.CutPrefix(line, []byte(far.Mark))
	if !ok || json.Unmarshal(rest, &g) != nil || g.Start == "" {
		return g, fmt.Errorf("what listens is no engine: it says %.80q", line)
	}
	return g, c.SetReadDeadline(time.Time{})
}

// Read reads what follows the greeting.
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Join passes on what comes from in to the engine, and what the engine says to out, until the engine
// closes the connection. The end of in is passed on, and the engine closes the connection then.
func (c *Conn) Join(in io.Reader, out io.Writer) error {
	go func() { // owned by the process, which ends after Join; ends with in, or with the connection
		io.CopyBuffer(c.UnixConn, struct{ io.Reader }{in}, make([]byte, bufferSize))
		c.CloseWrite()
	}()
	_, err := io.CopyBuffer(out, struct{ io.Reader }{c}, make([]byte, bufferSize))
	c.Close()
	return err
}
