//go:build unix

package sockets

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
)

// Protocol is the number of what follows a hello: its fields, the answers and the lines that are
// not MCP.
const Protocol = 1

// A Role says what the process at the other end of a connection is to the engine.
type Role string

const (
	Client Role = "client" // a front with its client: an engine serves one at a time
	Person Role = "person" // a command: any number of them, at any time
	Page   Role = "page"   // a page that watches the jobs: as a command, but it speaks HTTP
)

// A Hello is the first line of a connection.
type Hello struct {
	Protocol int // set by [Conn.Greet]
	Role     Role

	// What a client brings, as the settings of the program that it has started.
	Env      []string      `json:",omitempty"` // KEY=value; nil: the engine was started with it
	Umask    int           `json:",omitempty"`
	Grace    time.Duration `json:",omitempty"`
	Timeout  time.Duration `json:",omitempty"` // 0: jobs are not limited
	Toolsets []string      `json:",omitempty"` // nil: the default ones
	MaxChars int           `json:",omitempty"` // 0: the usual number
	NoImages bool          `json:",omitempty"`
	LogLevel slog.Level

	// Older names the engines of the same identity that refused this client because they have
	// another protocol, for the first reply. Empty: there are none.
	Older string `json:",omitempty"`

	// Stderr is where the engine logs as long as this connection lasts. The descriptor is sent
	// beside the line. Nil: the engine keeps the one that it has. The receiver of a hello closes
	// it.
	Stderr *os.File `json:"-"`
}

// A Welcome describes the engine that accepts a connection. Programs that read ps --json get it by
// the same names.
type Welcome struct {
	Version   string    `json:"version"`
	Workspace string    `json:"workspace"` // an absolute path without links
	PID       int       `json:"pid"`       // the engine's process
	Since     time.Time `json:"since"`     // when the engine started
	Attended  bool      `json:"attended"`  // a client is connected
	// Left is when the last client left. It is zero while a client is connected.
	Left time.Time `json:"client_left,omitzero"`
	// Ends is when the engine ends unless a client comes. It is zero while a client is connected, or
	// while kept jobs hold the engine.
	Ends time.Time `json:"ends,omitzero"`
	// Trims is when the engine ends what is not kept. It is zero while a client is connected, or once
	// that has ended.
	Trims time.Time `json:"rest_ends,omitzero"`
	Kept  int       `json:"kept,omitempty"` // the jobs and idle sessions that survive a goodbye
	// Lone is set if the engine is the process that its client started: no other client can take it
	// over.
	Lone bool `json:"lone,omitempty"`
	// KeptSessions are the sessions among Kept.
	KeptSessions int `json:"kept_sessions,omitempty"`
}

// A front says with one of these lines that its client leaves and will not come back.
const (
	// Goodbye is said at the end of the client's input: calls in flight are answered as usual, for
	// a limited time, or until GoodbyeNow is said. The front reads on until the engine closes the
	// connection.
	Goodbye = `{"jsonrpc":"2.0","method":"` + GoodbyeMethod + `"}`
	// GoodbyeNow is said at a signal: calls in flight are answered at once with the current status.
	GoodbyeNow = `{"jsonrpc":"2.0","method":"` + GoodbyeMethod + `","params":{"now":true}}`

	GoodbyeMethod = "notifications/async-repl/goodbye" // the method of both
)

// HelloTime bounds the time that a hello and its answer take together.
const HelloTime = 2 * time.Second

// maxHello is the number of bytes that a hello can have. An environment has about 5,000.
const maxHello = 1 << 20

// maxAnswer is the number of bytes that an answer can have.
const maxAnswer = 64 << 10

var (
	// ErrBusy means that another client has the engine.
	ErrBusy = errors.New("another client has this engine")
	// ErrGone means that the engine ended before it answered.
	ErrGone = errors.New("the engine has ended")
)

// A Refusal is the reason of an engine that accepts no such connection.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// OtherProtocol is the error of an engine whose protocol differs: the version of its program.
type OtherProtocol string

func (o OtherProtocol) Error() string {
	return fmt.Sprintf("it has version %s, which speaks another protocol: use the program of that version", string(o))
}

// A Conn is a connection between an engine and a front or command. Until the hello is answered it
// is used by one goroutine; after that it is a stream.
type Conn struct {
	*net.UnixConn
	in     *bufio.Reader
	begun  bool     // the first line has been read
	rights []byte   // a buffer for descriptors that are sent
	sent   *os.File // the file that came with the first line, or nil
}

// FileConn returns a Conn over a Unix socket that this process was given, and closes the file.
func FileConn(f *os.File) (*Conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	unixConn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("it is no Unix socket")
	}
	return newConn(unixConn), nil
}

// newConn returns a Conn over c, on which nothing has been read yet.
func newConn(c *net.UnixConn) *Conn {
	conn := &Conn{UnixConn: c, rights: make([]byte, unix.CmsgSpace(4))}
	conn.in = bufio.NewReaderSize(receiver{conn}, 64<<10)
	return conn
}

// Read reads from the stream after the first line.
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Peer returns the pid of the process at the other end, or of the one that made the connection if
// it is a socket pair. It is 0 if that is not known.
func (c *Conn) Peer() int {
	pid, _ := peer(c.UnixConn)
	return pid
}

// A receiver reads from a connection. It keeps the first file that is sent with the first line, and
// closes others.
type receiver struct{ *Conn }

func (r receiver) Read(p []byte) (int, error) {
	if r.begun {
		return r.UnixConn.Read(p) // the kernel closes the files that are sent
	}
	n, used, _, _, err := r.ReadMsgUnix(p, r.rights)
	if used > 0 {
		messages, _ := unix.ParseSocketControlMessage(r.rights[:used])
		for _, m := range messages {
			fds, _ := unix.ParseUnixRights(&m)
			for _, fd := range fds {
				unix.CloseOnExec(fd)
				if f := os.NewFile(uintptr(fd), "sent with the hello"); r.sent == nil {
					r.sent = f
				} else {
					f.Close()
				}
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.EOF // line compares it
	}
	return max(n, 0), err
}

// line reads a line of at most limit bytes and returns it without its end.
func (c *Conn) line(limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := c.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > limit:
			return nil, fmt.Errorf("the first line has more than %d bytes", limit)
		case err == nil:
			c.begun = true
			return line[:len(line)-1], nil
		case err == bufio.ErrBufferFull:
		case err == io.EOF && len(line) > 0:
			return nil, errors.New("the connection ended within its first line")
		default:
			return nil, err
		}
	}
}

// Greet says hello and reads the answer, within limit. The error is ErrBusy, ErrGone, an
// OtherProtocol, a Refusal or the reason for people.
func (c *Conn) Greet(ctx context.Context, h Hello, limit time.Duration) (Welcome, error) {
	c.SetDeadline(time.Now().Add(limit))
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) }) // owned by Greet; ends at once
	defer stop()
	err := c.say(h)
	var w Welcome
	if err == nil || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		w, err = c.answer() // an engine that refuses may close before it has read the hello
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the engine did not answer within %v", limit)
	}
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	return w, err
}

// say writes a hello.
func (c *Conn) say(h Hello) error {
	h.Protocol = Protocol
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if len(line) > maxHello {
		return fmt.Errorf("the environment has %d bytes, and an engine accepts %d", len(line), maxHello)
	}
	if h.Stderr != nil { // the descriptor goes with the first part
		err = descriptor.Use(h.Stderr, func(fd int) error {
			n, _, err := c.WriteMsgUnix(line, unix.UnixRights(fd), nil)
			line = line[n:]
			return err
		})
	}
	if err == nil {
		_, err = c.Write(line)
	}
	return err
}

// answer reads the answer to a hello.
func (c *Conn) answer() (Welcome, error) {
	line, err := c.line(maxAnswer)
	c.sent.Close() // no engine sends one
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: %v", ErrGone, err)
	}
	if err != nil {
		return Welcome{}, err
	}
	word, rest, _ := strings.Cut(string(line), " ")
	switch word {
	case "welcome":
		var w Welcome
		if err := json.Unmarshal([]byte(rest), &w); err != nil {
			return w, fmt.Errorf("the engine's welcome is no JSON: %v", err)
		}
		return w, nil
	case "busy":
		return Welcome{}, ErrBusy
	case "protocol":
		_, version, _ := strings.Cut(rest, " ")
		return Welcome{}, OtherProtocol(version)
	case "refused:":
		return Welcome{}, Refusal(rest)
	}
	return Welcome{}, fmt.Errorf("the engine answered %.40q, which this version does not know", line)
}

// Hear reads a hello within HelloTime. If it can't be accepted, Hear answers it and returns the
// reason; the caller closes the connection.
func (c *Conn) Hear(version string) (h Hello, err error) {
	c.SetDeadline(time.Now().Add(HelloTime))
	line, err := c.line(maxHello)
	var first struct{ Protocol int } // the other fields can have other types in another protocol
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("no hello came within %v", HelloTime)
		c.SetDeadline(time.Now().Add(HelloTime))
	case err != nil:
	case json.Unmarshal(line, &first) != nil || first.Protocol == 0:
		err = fmt.Errorf("the first line is not the hello of this program: %.40q", line)
	case first.Protocol != Protocol:
		fmt.Fprintf(c, "protocol %d %s\n", Protocol, version)
		c.sent.Close()
		return h, fmt.Errorf("the process that connected speaks protocol %d and not %d", first.Protocol, Protocol)
	default:
		if err = json.Unmarshal(line, &h); err == nil {
			h.Stderr = c.sent
			return h, nil
		}
		err = fmt.Errorf("the hello can't be read: %v", err)
	}
	c.sent.Close()
	c.Refuse(err.Error())
	return h, err
}

// Welcome accepts a connection and ends the limit of its time.
func (c *Conn) Welcome(w Welcome) error {
	line, err := json.Marshal(w)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c, "welcome %s\n", line)
	if err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

// Busy refuses a client because another one is connected.
func (c *Conn) Busy() { io.WriteString(c, "busy\n") }

// Refuse refuses a connection with a reason for people, of one line.
func (c *Conn) Refuse(reason string) {
	io.WriteString(c, "refused: "+strings.Join(strings.Fields(reason), " ")+"\n")
}
