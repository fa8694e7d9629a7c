package sockdiag

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Address returns the address and port in the bytes of a struct sockaddr, or "" if they hold no
// Internet address.
func Address(b []byte) string {
	if len(b) < unix.SizeofSockaddrInet4 {
		return ""
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port).String()
	case family == unix.AF_INET6 && len(b) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), port).String()
	}
	return ""
}
