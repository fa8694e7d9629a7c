package worker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
	"asyncrepl/internal/terminal/pump"
)

const (
	// maxEvent bounds one event, in bytes. A longer line does not come from the worker's program
	// and is skipped. The worker bounds what it takes from user code: its longest event, the
	// result, names and error of a job that is done, is shorter even if each character is escaped
	// twice, as 12 bytes.
	maxEvent = 16 << 20

	// sendTime bounds a write to a worker that does not read. Without it a stopped worker would
	// block its caller, which holds the turn, for ever.
	sendTime = 5 * time.Second
)

// A channel is the socketpair between Go and a worker.
type channel struct {
	conn  *net.UnixConn
	token []byte // the worker's token begins each of its events

	mu sync.Mutex // keeps two senders' lines apart
}

// newChannel returns our end, and the worker's end as a file.
func newChannel() (*channel, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the worker's channel: %w", err)
	}
	for _, fd := range pair {
		unix.CloseOnExec(fd)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "channel"), os.NewFile(uintptr(pair[1]), "worker channel")
	defer ours.Close() // FileConn makes its own copy
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("opening the worker's channel: %w", err)
	}
	token := make([]byte, 16)
	rand.Read(token)
	return &channel{conn: conn.(*net.UnixConn), token: []byte(hex.EncodeToString(token))}, theirs, nil
}

// send writes one command; copies of files travel along.
func (c *channel) send(cmd command, files ...*os.File) error {
	fields, err := json.Marshal(cmd)
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = syscall.UnixRights(fds...)
	}
	return c.write(fmt.Appendf(nil, "%s %s\n", cmd.op(), fields), rights)
}

// write sends all of b; the rights travel with its first byte.
func (c *channel) write(b, rights []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.SetWriteDeadline(time.Now().Add(sendTime))
	for len(b) > 0 {
		n, _, err := c.conn.WriteMsgUnix(b, rights, nil)
		if err != nil {
			return fmt.Errorf("writing to the worker: %w", err)
		}
		b, rights = b[n:], nil
	}
	return nil
}

// writeProgram sends a new worker its program, until the given time or until ctx is done.
func (c *channel) writeProgram(ctx context.Context, prog program, until time.Time) error {
	c.conn.SetWriteDeadline(until)
	stop := context.AfterFunc(ctx, func() { c.conn.SetWriteDeadline(time.Now()) })
	defer stop()
	_, err := c.conn.Write(prog.header(string(c.token)))
	if err == nil {
		_, err = c.conn.Write(prog.texts)
	}
	return err
}

// read hands each event to take until the channel ends, and returns why it ended: io.EOF, or
// ECONNRESET if the worker's end was closed before it had read all commands
// (https://man7.org/linux/man-pages/man7/unix.7.html; Linux reports this, macOS does not). It skips
// lines that do not begin with the worker's token or hold no event. The descriptors that came with
// an event are open until take returns.
func (c *channel) read(take func(Event)) error {
	r := newLineReader(c.conn)
	for {
		line, fds, err := r.next(maxEvent)
		if rest, ok := bytes.CutPrefix(line, c.token); ok {
			if ev, err := parseEvent(rest, fds); err == nil {
				take(ev)
			}
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
		if err != nil {
			return err
		}
	}
}

// parseEvent parses the name and the fields of an event, which follow the token. fds came with it.
func parseEvent(line []byte, fds []int) (Event, error) {
	name, fields, _ := bytes.Cut(bytes.TrimPrefix(line, []byte(" ")), []byte(" "))
	decoder, ok := decoders[string(name)]
	if !ok {
		return nil, fmt.Errorf("unknown event %q", name)
	}
	ev, err := decoder(fields)
	switch ev := ev.(type) {
	case displayEvent:
		ev.files = fds
		return ev, err
	case poolsEvent:
		ev.files = fds
		return ev, err
	}
	return ev, err
}

func (c *channel) close() { c.conn.Close() }

// unread reports whether the channel holds events that are not read yet, because the machine is
// busy.
func (c *channel) unread() bool {
	n := 0
	err := descriptor.Use(c.conn, func(fd int) (err error) { n, err = pump.Buffered(fd); return err })
	return err == nil && n > 0
}
