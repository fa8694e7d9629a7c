package listening

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"asyncrepl/internal/test/must"
)

func TestHolder(t *testing.T) {
	l := must.Get(net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer l.Close()
	c := must.Get(net.Dial("tcp4", l.Addr().String()))(t).(*net.TCPConn)
	defer c.Close()
	local, remote := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String())
	if pid := Holder(local, remote); pid != os.Getpid() {
		t.Errorf("it is process %d, not %d", pid, os.Getpid())
	}
	f := must.Get(c.File())(t)
	child := exec.Command("cat")
	child.ExtraFiles = []*os.File{f}
	in := must.Get(child.StdinPipe())(t)
	must.Do(t, child.Start())
	f.Close()
	c.Close()
	if pid := Holder(local, remote); pid != child.Process.Pid {
		t.Errorf("it is process %d, not %d", pid, child.Process.Pid)
	}
	in.Close()
	must.Do(t, child.Wait())
	if pid := Holder(local, remote); pid != 0 {
		t.Errorf("it is process %d, and the connection has ended", pid)
	}
}
