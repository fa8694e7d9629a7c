package listening

import (
	"errors"
	"net/netip"
)

// This system does not show which process has a socket.

func listeners() (map[uint64]netip.AddrPort, error) { return nil, errors.ErrUnsupported }

// Watched returns [errors.ErrUnsupported].
func Watched(pid, epoll int) (map[uint64]netip.AddrPort, error) { return nil, errors.ErrUnsupported }

func sockets(int) ([]uint64, error) { return nil, errors.ErrUnsupported }
