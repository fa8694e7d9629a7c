package worker

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// maxFiles bounds the descriptors that wait for their line. Others are closed at once: user
	// code could otherwise fill this process's table of descriptors.
	maxFiles = 16

	readBuffer = 16 << 10
)

// A lineReader reads lines from a socket, and the descriptors that travel with them. User code can
// send any descriptors with anything: all of them are given out with the line that they came with,
// or closed.
type lineReader struct {
	conn     *net.UnixConn
	buf      *bufio.Reader // reads by Read
	oob      []byte
	received int64 // bytes read from the socket
	given    int64 // bytes of the lines that were given out
	files    []received
}

// A received descriptor came with a byte that is not after end.
type received struct {
	fd  int
	end int64
}

func newLineReader(conn *net.UnixConn) *lineReader {
	r := &lineReader{conn: conn, oob: make([]byte, unix.CmsgSpace(4*maxFiles))}
	r.buf = bufio.NewReaderSize(r, readBuffer)
	return r
}

// Read implements io.Reader. A read ends with the bytes that descriptors came with.
func (r *lineReader) Read(b []byte) (int, error) {
	n, rights, _, _, err := r.conn.ReadMsgUnix(b, r.oob)
	n = max(0, n) // it is -1 after an error
	r.received += int64(n)
	if rights > 0 {
		r.receive(r.oob[:rights])
	}
	return n, err
}

// receive keeps the descriptors of a control message. The system has closed those that did not fit
// into it.
func (r *lineReader) receive(oob []byte) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return // the message is malformed and holds no descriptors
	}
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m) // an error: they are no descriptors
		for _, fd := range fds {
			if len(r.files) == maxFiles {
				unix.Close(fd)
				continue
			}
			r.files = append(r.files, received{fd, r.received})
		}
	}
}

// next reads a line, and returns nothing of a line longer than limit. The line is valid until the
// next call. The caller closes the descriptors that came with it.
func (r *lineReader) next(limit int) (line []byte, fds []int, err error) {
	line, err = r.line(limit)
	for len(r.files) > 0 && r.files[0].end <= r.given {
		fds = append(fds, r.files[0].fd)
		r.files = r.files[1:]
	}
	return line, fds, err
}

func (r *lineReader) line(limit int) ([]byte, error) {
	part, err := r.buf.ReadSlice('\n')
	r.given += int64(len(part))
	if !errors.Is(err, bufio.ErrBufferFull) {
		return part, err
	}
	line := bytes.Clone(part)
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = r.buf.ReadSlice('\n')
		r.given += int64(len(part))
		if len(line) <= limit {
			line = append(line, part...)
		}
	}
	if len(line) > limit {
		return nil, err
	}
	return line, err
}

// readFile returns the first size bytes of a regular file, as a memfd is. Descriptors of anything
// else, which could block, are refused.
func readFile(fd, size int) ([]byte, error) {
	var st unix.Stat_t
	switch err := unix.Fstat(fd, &st); {
	case err != nil:
		return nil, err
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.New("no regular file")
	case st.Size < int64(size):
		return nil, fmt.Errorf("%d bytes where %d are announced", st.Size, size)
	}
	b := make([]byte, size)
	for n := 0; n < size; {
		k, err := unix.Pread(fd, b[n:], int64(n))
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return nil, err
		case k == 0:
			return nil, errors.New("the file was cut while it was read")
		}
		n += max(0, k)
	}
	return b, nil
}
