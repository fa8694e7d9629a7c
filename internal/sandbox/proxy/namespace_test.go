//go:build linux

package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/sandbox/proxy"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/nstest"
	"asyncrepl/internal/test/polltest"
)

func init() {
	parts["part-inside"], parts["part-own"], parts["part-names"], parts["part-proxy"] = partInside, partOwn, partNames, partProxy
}

// isolated returns a command that runs a part in a network namespace of its own.
func isolated(t *testing.T, part string) *exec.Cmd {
	t.Helper()
	needtest.Program(t, "ip")
	cmd := exec.Command("/proc/self/exe", part)
	nstest.Isolate(cmd, unix.CLONE_NEWNET)
	return cmd
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %v: %v: %s", args, err, out)
	}
	return nil
}

// partInside is a process of a sandbox: it listens on its loopback, sends the listener to descriptor 3, and
// asks the proxy for a page.
func partInside() error {
	if err := ip("link", "set", "lo", "up"); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		return err
	}
	l.Close()
	f.Close()
	for _, request := range []string{"CONNECT open.example:80 HTTP/1.1\r\n\r\nGET / HTTP/1.0\r\n\r\n", "GET http://open.example/ HTTP/1.0\r\n\r\n", "CONNECT evil.example:80 HTTP/1.1\r\n\r\n"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		io.WriteString(c, request)
		io.Copy(os.Stdout, c)
	}
	return nil
}

// The proxy serves a listener of another network namespace, from which nothing else is reached.
func TestListenerOfAnotherNamespace(t *testing.T) {
	w := newWorld(t, nil)
	cmd := isolated(t, "part-inside")
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(fds[0])
	theirs := os.NewFile(uintptr(fds[1]), "theirs")
	cmd.ExtraFiles = []*os.File{theirs}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	needtest.Right(t, "make a user namespace", cmd.Start(), nil)
	theirs.Close()
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(fds[0], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	must.Do(t, err)
	if n == 0 {
		cmd.Wait()
		t.Fatalf("no listener was sent: %s", &out)
	}
	rights := must.Get(unix.ParseUnixRights(&must.Get(unix.ParseSocketControlMessage(oob[:n]))(t)[0]))(t)
	f := os.NewFile(uintptr(rights[0]), "listener")
	l := must.Get(net.FileListener(f))(t)
	f.Close()
	w.serve(l)
	err = cmd.Wait()
	if got := out.String(); err != nil || strings.Count(got, "hello from open") < 2 || !strings.Contains(got, "403 async-repl's sandbox: evil.example:80 is not in "+setting) {
		t.Errorf("%v\n%s", err, got)
	}
}

// partOwn gives its machine an address of the Internet, and asks a proxy for it.
func partOwn() error {
	const own = "93.184.216.34"
	if err := errors.Join(ip("link", "set", "lo", "up"), ip("addr", "add", own+"/32", "dev", "lo")); err != nil {
		return err
	}
	server, err := net.Listen("tcp", own+":80")
	if err != nil {
		return err
	}
	go http.Serve(server, http.HandlerFunc(hello)) // ends with the process
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	hosts, err := sandbox.ParseHosts("open.example")
	if err != nil {
		return err
	}
	proxy.Start(proxy.Config{
		Hosts: hosts, Setting: setting, Log: slog.New(slog.DiscardHandler), Refused: func(context.Context, proxy.Refusal) {},
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(own)}, nil
		},
	}, l)
	for _, address := range []string{server.Addr().String(), l.Addr().String()} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		io.WriteString(c, "GET http://open.example/ HTTP/1.0\r\n\r\n")
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			return err
		}
		fmt.Print(line)
	}
	return nil
}

// A name can't lead to the machine itself by an address that others on the Internet reach.
func TestOwnAddressIsNotReached(t *testing.T) {
	cmd := isolated(t, "part-own")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("no user namespaces: %v", err)
	}
	if want := "HTTP/1.0 200 OK\r\nHTTP/1.0 403 Forbidden\r\n"; string(out) != want || err != nil {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// partNames has a machine with a search domain, asks a proxy for names, and prints the names for which the
// resolver is asked. No name is there.
func partNames() error {
	if err := ip("link", "set", "lo", "up"); err != nil {
		return err
	}
	settings := os.Args[2]
	if err := os.WriteFile(settings, []byte("nameserver 127.0.0.1\nsearch corp.example\noptions ndots:5\n"), 0o644); err != nil {
		return err
	}
	if err := unix.Mount(settings, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	resolver, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		return err
	}
	go func() { // ends with the process
		packet := make([]byte, 512)
		for {
			n, from, err := resolver.ReadFrom(packet)
			if err != nil {
				return
			}
			name := ""
			for at := 12; packet[at] != 0; at += 1 + int(packet[at]) {
				name += string(packet[at+1:at+1+int(packet[at])]) + "."
			}
			fmt.Println(name)
			packet[2], packet[3] = 0x81, 0x83 // a response: there is no such name
			resolver.WriteTo(packet[:n], from)
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	hosts, err := sandbox.ParseHosts("a.example,single")
	if err != nil {
		return err
	}
	proxy.Start(proxy.Config{Hosts: hosts, Log: slog.New(slog.DiscardHandler)}, l)
	for _, name := range []string{"a.example", "single"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		io.WriteString(c, "CONNECT "+name+":443 HTTP/1.1\r\n\r\n")
		io.Copy(io.Discard, c)
	}
	return nil
}

// A name of the list is not one below a search domain of the machine, unless it has only one label.
func TestSearchDomains(t *testing.T) {
	cmd := isolated(t, "part-names")
	cmd.Args = append(cmd.Args, filepath.Join(t.TempDir(), "resolv.conf"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("no user namespaces: %v", err)
	}
	asked := strings.Fields(string(out))
	slices.Sort(asked)
	if want := []string{"a.example.", "single.", "single.corp.example."}; !slices.Equal(slices.Compact(asked), want) || err != nil {
		t.Errorf("the resolver was asked for %v, %v, want %v", asked, err, want)
	}
}

// partProxy serves a proxy to 127.0.0.1, and prints its address.
func partProxy() error {
	hosts, err := sandbox.ParseHosts("127.0.0.1")
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	proxy.Start(proxy.Config{Hosts: hosts, Log: slog.New(slog.DiscardHandler)}, l)
	fmt.Println(l.Addr())
	select {}
}

// switches returns how often the threads of a process have run.
func switches(t *testing.T, pid int) (n int) {
	t.Helper()
	for _, path := range must.Get(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid)))(t) {
		text, _ := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "ctxt_switches") {
				n += must.Get(strconv.Atoi(strings.TrimSpace(value)))(t)
			}
		}
	}
	return n
}

// Tunnels that have carried bytes and carry none now wake nothing, and hold no pipes. A pipe or two of
// those that carried bytes last are kept for the next, more with the race detector.
func TestIdleTunnelsCostNothing(t *testing.T) {
	const tunnels = 500
	cmd := exec.Command("/proc/self/exe", "part-proxy")
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	w := &world{Addr: strings.TrimSpace(must.Get(bufio.NewReader(out).ReadString('\n'))(t))}
	echo := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer echo.Close()
	go func() { // ends when echo is closed
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { // ends with its tunnel
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	for range tunnels {
		c := w.tunnel(t, echo.Addr().String())
		c.send(t, "x")
		must.Get(c.r.ReadByte())(t)
	}
	pid := cmd.Process.Pid
	polltest.Check(t, func() error {
		before := switches(t, pid)
		time.Sleep(2 * time.Second) // the time that is measured
		if n := switches(t, pid) - before; n > 0 {
			return fmt.Errorf("%d switches in 2 s", n)
		}
		return nil
	})
	if n := len(must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t)); n > 3*tunnels {
		t.Errorf("%d tunnels hold %d descriptors", tunnels, n)
	}
	status := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t))
	_, rss, _ := strings.Cut(status, "VmRSS:")
	rss, _, _ = strings.Cut(rss, "\n")
	t.Logf("memory with %d tunnels: %s", tunnels, strings.TrimSpace(rss))
}
