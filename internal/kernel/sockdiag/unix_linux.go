package sockdiag

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// A UnixSocket is a Unix socket of our network namespace.
type UnixSocket struct {
	State uint8  // has the numbers of TCP states
	Peer  uint32 // the inode of the other end; 0: it has none, or has not been accepted
	Path  string // the address, as the process named it; empty: not bound, or an abstract name
}

// Unix returns the Unix socket with an inode. It fails with ENOENT if our network namespace has no
// such socket.
func Unix(inode uint32) (s UnixSocket, err error) {
	const showNameAndPeer = 1 | 4  // UDIAG_SHOW_NAME, UDIAG_SHOW_PEER
	request := make([]byte, 0, 24) // struct unix_diag_req
	request = append(request, unix.AF_UNIX, 0, 0, 0)
	// Any state, no cookie.
	for _, field := range []uint32{^uint32(0), inode, showNameAndPeer, ^uint32(0), ^uint32(0)} {
		request = binary.NativeEndian.AppendUint32(request, field)
	}
	answers, err := query(request, false)
	const fixed = 16 // struct unix_diag_msg, before the attributes
	if err != nil || len(answers) == 0 || len(answers[0]) < fixed {
		return s, err
	}
	s.State = answers[0][2]
	const name, peer = 0, 2 // UNIX_DIAG_NAME, UNIX_DIAG_PEER
	attributes := answers[0][fixed:]
	if value := attribute(attributes, peer); len(value) >= 4 {
		s.Peer = binary.NativeEndian.Uint32(value)
	}
	if value := attribute(attributes, name); len(value) > 0 && value[0] == '/' {
		s.Path = unix.ByteSliceToString(value)
	}
	return s, nil
}

// attribute returns the value of one of several netlink attributes, nil if it is not there.
func attribute(b []byte, kind uint16) []byte {
	for e := binary.NativeEndian; len(b) >= 4; {
		size := int(e.Uint16(b))
		if size < 4 || size > len(b) {
			break
		}
		if e.Uint16(b[2:]) == kind {
			return b[4:size]
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return nil
}
