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

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
)

// maxMessage is the number of bytes that a message can have.
const maxMessage = 64 << 10

// A message is a request, an answer or a note, which is not answered.
type message struct {
	Request int             `json:",omitempty"` // the number of a request; 0: it is no request
	Answer  int             `json:",omitempty"` // the number of the request that it answers; 0: it is no answer
	Kind    string          `json:",omitempty"`
	Data    json.RawMessage `json:",omitempty"`
	Error   string          `json:",omitempty"` // why the request failed; only an answer has one
}

// ErrGone means that the process at the other end has ended.
var ErrGone = errors.New("the process at the other end of the sandbox has ended")

// An incoming is a request or note that has come.
type incoming struct {
	data   json.RawMessage
	file   *os.File                    // closed when the handler returns; nil: no descriptor was sent
	answer func(result any, err error) // answers a request, at any time; does nothing for a note
}

// An end is one end of the channel.
type end struct {
	conn  *net.UnixConn
	write sync.Mutex // serializes messages
	done  chan struct{}

	// Guarded by mu.
	mu      sync.Mutex
	last    int                  // the number of the last request
	waiting map[int]chan message // the callers that wait for an answer
}

// open takes a socket of the channel, and closes the file.
func open(f *os.File) (*end, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("it is no Unix socket")
	}
	return &end{conn: conn, done: make(chan struct{}), waiting: make(map[int]chan message)}, nil
}

// Done returns a channel that is closed when the other end is gone.
func (e *end) Done() <-chan struct{} { return e.done }

// Close closes this end.
func (e *end) Close() error { return e.conn.Close() }

// send sends a message, with a descriptor if f is not nil.
func (e *end) send(m message, data any, f *os.File) (err error) {
	if data != nil {
		if m.Data, err = json.Marshal(data); err != nil {
			return err
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return fmt.Errorf("a message to the other side of the sandbox has %d bytes, and %d are allowed", len(text), maxMessage)
	}
	e.write.Lock()
	defer e.write.Unlock()
	if f == nil {
		_, err = e.conn.Write(text)
		return err
	}
	return descriptor.Use(f, func(fd int) error {
		_, _, err := e.conn.WriteMsgUnix(text, unix.UnixRights(fd), nil)
		return err
	})
}

// note sends a message that is not answered.
func (e *end) note(kind string, f *os.File) error {
	return e.send(message{Kind: kind}, nil, f)
}

// ask sends a request, and decodes its answer to the value that result points to if it is not nil.
func (e *end) ask(ctx context.Context, kind string, data, result any) error {
	answer := make(chan message, 1) // buffered: the caller can have left
	e.mu.Lock()
	e.last++
	number := e.last
	e.waiting[number] = answer
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.waiting, number)
	}()
	if err := e.send(message{Request: number, Kind: kind}, data, nil); err != nil {
		return err
	}
	select {
	case m := <-answer:
		if m.Error != "" {
			return errors.New(m.Error)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Data, result)
	case <-e.done:
		return ErrGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve handles what the other end says, one message after the other, until that end is gone. It
// leaves messages out that are of no known kind or no message at all.
func (e *end) serve(handlers map[string]func(incoming)) {
	defer close(e.done)
	defer e.conn.Close()
	text, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4))
	for {
		n, used, flags, _, err := e.conn.ReadMsgUnix(text, rights)
		if err != nil || n == 0 {
			return
		}
		f := received(rights[:used])
		var m message
		if flags&unix.MSG_TRUNC != 0 || json.Unmarshal(text[:n], &m) != nil {
			f.Close()
			continue
		}
		if m.Answer != 0 {
			f.Close() // no answer has one
			e.mu.Lock()
			answer := e.waiting[m.Answer]
			delete(e.waiting, m.Answer)
			e.mu.Unlock()
			if answer != nil {
				answer <- m
			}
			continue
		}
		handle := handlers[m.Kind]
		if handle == nil {
			f.Close()
			continue
		}
		handle(incoming{m.Data, f, func(result any, err error) {
			if m.Request == 0 {
				return
			}
			answer := message{Answer: m.Request}
			if err != nil {
				answer.Error, result = err.Error(), nil
			}
			e.send(answer, result, nil) // an error: the other end is gone
		}})
		f.Close()
	}
}

// received returns the file that came with a message, or nil.
func received(rights []byte) (first *os.File) {
	messages, _ := unix.ParseSocketControlMessage(rights)
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			if f := os.NewFile(uintptr(fd), "sent through the sandbox"); first == nil {
				first = f
			} else {
				f.Close()
			}
		}
	}
	return first
}
