package sockdiag

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// UnixPeer returns the inode of the other end of a Unix socket, or 0 if the socket has none. It
// fails with ENOENT if the inode belongs to no Unix socket of our network namespace.
func UnixPeer(inode uint32) (peer uint32, err error) {
	const showPeer = 4             // UDIAG_SHOW_PEER
	request := make([]byte, 0, 24) // struct unix_diag_req
	request = append(request, unix.AF_UNIX, 0, 0, 0)
	for _, field := range []uint32{^uint32(0), inode, showPeer, ^uint32(0), ^uint32(0)} { // in any state; no cookie
		request = binary.NativeEndian.AppendUint32(request, field)
	}
	answers, err := query(request, false)
	const fixed = 16 // struct unix_diag_msg, before the attributes
	if err != nil || len(answers) == 0 || len(answers[0]) < fixed {
		return 0, err
	}
	return peerAttribute(answers[0][fixed:]), nil
}

// peerAttribute returns the value of UNIX_DIAG_PEER among netlink attributes, 0 if it is not there.
func peerAttribute(b []byte) uint32 {
	const peer = 2
	for e := binary.NativeEndian; len(b) >= 4; {
		size := int(e.Uint16(b))
		if size < 4 || size > len(b) {
			break
		}
		if e.Uint16(b[2:]) == peer && size >= 8 {
			return e.Uint32(b[4:])
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return 0
}
