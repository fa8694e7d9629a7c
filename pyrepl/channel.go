package pyrepl

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxEvent bounds one event, in bytes: a line that goes on for longer is
	// none of the worker's and is skipped. The worker bounds what it takes from
	// user code so that even where each character is escaped twice, as 12 bytes,
	// its longest event is shorter: result, names and error of a job that is done.
	maxEvent = 16 << 20

	// sendTime bounds a write to a worker that does not read.
	sendTime = 5 * time.Second
)

// An event is what a worker says. Which fields are set depends on Ev.
type event struct {
	Ev string `json:"ev"` // hello, started, raised, input, resumed, done, sync, variables, imported, unsupported

	ID string `json:"id"` // the job it is about
	N  int    `json:"n"`  // the question, sync or request it is about

	Version string `json:"version"` // hello

	Kind   string `json:"kind"` // input: line or secret
	Prompt string `json:"prompt"`
	By     string `json:"by"`

	End         string   `json:"end"` // done: returned, exit or raised
	Code        int      `json:"code"`
	Error       string   `json:"error"`
	Interrupted bool     `json:"interrupted"`
	Result      *string  `json:"result"`
	ResultCut   int      `json:"result_cut"`
	Pending     int      `json:"pending"`
	Names       []string `json:"names"` // null: as they were

	Vars  []Variable `json:"vars"` // variables
	Total int        `json:"total"`

	Modules []string `json:"modules"` // imported
}

// A command is what a worker is told.
type command struct {
	Op    string `json:"op"` // exec, input, sync, variables, imported
	ID    string `json:"id,omitempty"`
	N     int    `json:"n,omitempty"`
	Code  string `json:"code,omitempty"`
	Fds   int    `json:"fds,omitempty"`
	Line  string `json:"line,omitempty"`
	EOF   bool   `json:"eof,omitempty"`
	Fresh bool   `json:"fresh,omitempty"` // look for modules anew

	Paths   []string `json:"paths,omitempty"`   // exec: .pth files to read
	Modules []string `json:"modules,omitempty"` // imported: those that are asked about
}

// A channel is the socketpair between Go and a worker.
type channel struct {
	conn  *net.UnixConn
	token []byte // of this worker; begins each of its events

	mu sync.Mutex // keeps two senders' lines apart
}

// newChannel returns our end and the file of the worker's.
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

// send writes one command, with files if it carries any.
func (c *channel) send(cmd command, files ...*os.File) error {
	line, err := json.Marshal(cmd)
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
	return c.write(append(line, '\n'), rights)
}

// write sends b whole; the rights travel with its first byte.
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

// read hands each event to take until the channel ends. What does not begin
// with the worker's token, or is no event, is passed over.
func (c *channel) read(take func(event)) {
	r := bufio.NewReaderSize(c.conn, 16<<10)
	for {
		line, err := readLine(r, maxEvent)
		if rest, ok := bytes.CutPrefix(line, c.token); ok {
			var ev event
			if json.Unmarshal(rest, &ev) == nil {
				take(ev)
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine reads up to a newline; of a line longer than limit it returns
// nothing.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	part, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return part, err
	}
	line := bytes.Clone(part)
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = r.ReadSlice('\n')
		if len(line) <= limit {
			line = append(line, part...)
		}
	}
	if len(line) > limit {
		return nil, err
	}
	return line, err
}

func (c *channel) close() { c.conn.Close() }
