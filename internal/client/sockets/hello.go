//go:build unix

package sockets

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Protocol is the number of what follows a hello: its fields, the answers and the lines that are not MCP.
const Protocol = 1

// A Role says what the process at the other end of a connection is to the engine.
type Role string

const (
	Client Role = "client" // a front with its client: an engine serves one at a time
	Person Role = "person" // a command: any number of them, at any time
	Yield  Role = "yield"  // an engine of the same workspace, which asks an unattended one to end
)

// A Hello is the first line of a connection.
type Hello struct {
	Protocol int
	Version  string // the version of the program that says hello
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

	// Older names the engines of the same identity that refused this client because they have another
	// protocol. The first reply tells the client.
	Older []OtherProtocol `json:",omitempty"`

	// Stderr is where the engine logs as long as this connection lasts. The descriptor is sent beside
	// the line. Nil: the engine keeps the one that it has. The receiver of a hello closes it.
	Stderr *os.File `json:"-"`
}

// A Welcome describes the engine that accepts a connection.
type Welcome struct {
	Version   string
	Workspace string    // an absolute path without links
	PID       int       // the engine's process
	Since     time.Time // when the engine started
	Attended  bool      // a client is connected
	Left      time.Time // when the last client left; zero: a client is connected
	Ends      time.Time // when the engine ends unless a client comes; zero: a client is connected, or kept jobs hold it
	Trims     time.Time // when the engine ends what is not kept; zero: a client is connected, or that has ended
	Kept      int       // the jobs and idle sessions that survive a goodbye
	Lone      bool      // the engine is the process that its client started: no other client can take it over
}

// A front says with one of these lines that its client leaves and will not come back.
const (
	// Goodbye is said at the end of the client's input: calls in flight are answered as usual, for a
	// limited time, or until GoodbyeNow is said. The front reads on until the engine closes the connection.
	Goodbye = `{"jsonrpc":"2.0","method":"notifications/async-repl/goodbye"}`
	// GoodbyeNow is said at a signal: calls in flight are answered at once with the current status.
	GoodbyeNow = `{"jsonrpc":"2.0","method":"notifications/async-repl/goodbye","params":{"now":true}}`
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

// OtherProtocol is the error of an engine whose protocol differs.
type OtherProtocol struct {
	Name     Name
	Protocol int
	Version  string
}

func (o *OtherProtocol) Error() string {
	return fmt.Sprintf("the engine of process %d has version %s, which speaks protocol %d and not %d: use the program of that version", o.Name.PID, o.Version, o.Protocol, Protocol)
}

// A Conn is a connection between an engine and a front or command. Until the hello is answered it is used
// by one goroutine; after that it is a stream.
type Conn struct {
	*net.UnixConn
	in     *bufio.Reader
	begun  bool     // the first line has been read
	rights []byte   // a buffer for descriptors that are sent
	sent   *os.File // the file that came with the first line, or nil
}

// NewConn returns a Conn over c, on which nothing has been read yet.
func NewConn(c *net.UnixConn) *Conn {
	conn := &Conn{UnixConn: c, rights: make([]byte, unix.CmsgSpace(4))}
	conn.in = bufio.NewReaderSize(receiver{conn}, 64<<10)
	return conn
}

// Read reads from the stream after the first line.
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Peer returns the pid of the process at the other end, or of the one that made the connection if it is a
// socket pair. It is 0 if that is not known.
func (c *Conn) Peer() int {
	pid, _ := peer(c.UnixConn)
	return pid
}

// ReadPart returns the next line with its end, or a part of it if it is long, with bufio.ErrBufferFull. What
// it returns is valid until the next read.
func (c *Conn) ReadPart() ([]byte, error) { return c.in.ReadSlice('\n') }

// A receiver reads from a connection. It keeps the first file that is sent with the first line, and closes
// others.
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
		err = io.EOF // as Read returns it
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

// Greet writes a hello. It sets the protocol number.
func (c *Conn) Greet(h Hello) error {
	h.Protocol = Protocol
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if len(line) > maxHello {
		return fmt.Errorf("the environment has %d bytes, and an engine accepts %d", len(line), maxHello)
	}
	if h.Stderr == nil {
		_, err = c.Write(line)
		return err
	}
	raw, err := h.Stderr.SyscallConn()
	if err != nil {
		return err
	}
	n := 0
	controlled := raw.Control(func(fd uintptr) {
		n, _, err = c.WriteMsgUnix(line, unix.UnixRights(int(fd)), nil)
	})
	if controlled != nil {
		return controlled
	}
	if err == nil && n < len(line) { // the descriptor goes with the first part
		_, err = c.Write(line[n:])
	}
	return err
}

// Answer reads the answer to a hello. The error is ErrBusy, ErrGone, an *OtherProtocol, a Refusal or the
// reason for people.
func (c *Conn) Answer() (Welcome, error) {
	line, err := c.line(maxAnswer)
	c.sent.Close() // no engine sends one
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Welcome{}, fmt.Errorf("the engine did not answer within %v", HelloTime)
	case err != nil:
		return Welcome{}, fmt.Errorf("%w: %v", ErrGone, err)
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
		number, version, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(number)
		return Welcome{}, &OtherProtocol{Protocol: n, Version: version}
	case "refused:":
		return Welcome{}, Refusal(rest)
	}
	return Welcome{}, fmt.Errorf("the engine answered %.40q, which this version does not know", line)
}

// Hear reads a hello within HelloTime. If it can't be accepted, Hear answers it and returns the reason;
// the caller closes the connection.
func (c *Conn) Hear(version string) (Hello, error) {
	c.SetDeadline(time.Now().Add(HelloTime))
	var h Hello
	line, err := c.line(maxHello)
	if err == nil {
		err = decode(line, &h)
	}
	if err == nil && h.Protocol != Protocol {
		fmt.Fprintf(c, "protocol %d %s\n", Protocol, version)
		c.sent.Close()
		return h, fmt.Errorf("the process that connected speaks protocol %d and not %d", h.Protocol, Protocol)
	}
	if err != nil {
		c.sent.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("no hello came within %v", HelloTime)
			c.SetDeadline(time.Now().Add(HelloTime))
		}
		c.Refuse(err.Error())
		return h, err
	}
	h.Stderr = c.sent
	return h, nil
}

// decode reads a hello. It reads the protocol number first, because the other fields can have other types
// in another protocol.
func decode(line []byte, h *Hello) error {
	var first struct{ Protocol int }
	if err := json.Unmarshal(line, &first); err != nil || first.Protocol == 0 {
		return fmt.Errorf("the first line is not the hello of this program: %.40q", line)
	}
	if h.Protocol = first.Protocol; h.Protocol != Protocol {
		return nil
	}
	if err := json.Unmarshal(line, h); err != nil {
		return fmt.Errorf("the hello can't be read: %v", err)
	}
	return nil
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
