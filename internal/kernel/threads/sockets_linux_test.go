package threads

import (
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/sockdiag"
	"asyncrepl/internal/test/must"
)

// What one end has sent and the other has not taken is on its way, and wakes it.
func TestDataOnItsWayIsNoRest(t *testing.T) {
	a, b := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")
	for name, c := range map[string]struct {
		unsent uint32
		peer   uint32
		err    error
	}{"none": {0, 12, nil}, "some": {1, 0, ErrMoved}} {
		t.Run(name, func(t *testing.T) {
			ps := &peers{families: len(families), sockets: []sockdiag.Socket{
				{State: sockdiag.Established, Local: a, Remote: b, Inode: 11},
				{State: sockdiag.Established, Local: b, Remote: a, Inode: 12, Unsent: c.unsent},
			}}
			if peer, _, err := ps.of(11, os.Getpid(), ""); peer != c.peer || err != c.err {
				t.Errorf("got %d, %v; want %d, %v", peer, err, c.peer, c.err)
			}
		})
	}
}

// The table of /proc shows the same connections as the kernel's answers, for sandboxes without
// those.
func TestTableShowsConnections(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	a := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	defer a.Close()
	b := must.Get(l.Accept())(t)
	defer b.Close()
	own := must.Get(netNamespace(os.Getpid()))(t)
	from, to := inodeOf(t, a), inodeOf(t, b)
	for name, namespace := range map[string]string{"kernel": own, "table": "another"} {
		t.Run(name, func(t *testing.T) {
			for inode, want := range map[uint32]uint32{from: to, to: from} {
				if peer, _, err := new(peers).of(inode, os.Getpid(), namespace); err != nil || peer != want {
					t.Errorf("the other end of %d is %d, %v; want %d", inode, peer, err, want)
				}
			}
		})
	}
}

// inodeOf returns the inode of a connection's socket.
func inodeOf(t *testing.T, c net.Conn) uint32 {
	raw := must.Get(c.(syscall.Conn).SyscallConn())(t)
	var st unix.Stat_t
	must.Do(t, raw.Control(func(fd uintptr) { must.Do(t, unix.Fstat(int(fd), &st)) }))
	return uint32(st.Ino)
}
