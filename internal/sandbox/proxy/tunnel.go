//go:build linux

package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/sandbox"
)

// connect starts a tunnel.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request, source int) {
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // ends the connection; only a second call fails
	}
	client := conn.(*net.TCPConn)
	to, f := parseTarget(r.RequestURI, 0)
	if r.ContentLength != 0 {
		f = bad("CONNECT has no body")
	}
	early, _ := buffer.Reader.Peek(buffer.Reader.Buffered())
	early = bytes.Clone(early)
	go p.tunnel(client, early, to, f, source) // owned by the proxy; ends when both directions have ended, or with Close
}

// tunnel answers CONNECT, and passes bytes both ways if the target is reached. early is what the client sent
// before the answer.
func (p *Proxy) tunnel(client *net.TCPConn, early []byte, to sandbox.Host, f *failure, source int) {
	defer p.left()
	defer client.Close()
	var server *net.TCPConn
	if f == nil {
		server, f = p.reach(p.ctx, "CONNECT", to, source)
	}
	if f != nil {
		f.answer(client)
		return
	}
	defer server.Close()
	defer context.AfterFunc(p.ctx, func() {
		client.Close()
		server.Close()
	})()
	io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
	server.Write(early)
	done := make(chan struct{})
	go func() { // owned by the tunnel; ends when the server has, when a connection fails, or after halfLimit
		defer close(done)
		p.pass(client, server)
	}()
	p.pass(server, client)
	<-done
}

// pass moves what one connection receives to another one, and then its end. If either fails, both are closed.
func (p *Proxy) pass(to, from *net.TCPConn) {
	if err := move(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	to.CloseWrite()
	end := time.Now().Add(p.config.half) // the other direction can continue until then
	to.SetReadDeadline(end)
	from.SetWriteDeadline(end)
}

// move copies in the kernel, by splice, until from has ended. It waits for bytes itself: io.Copy would hold a
// pipe meanwhile, which is two descriptors and, for all processes of the user together, 64 MiB of room
// (fs.pipe-user-pages-soft), beyond which their pipes shrink to 8 KiB.
func move(to, from *net.TCPConn) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	for {
		n, err := available(raw)
		if err != nil || n == 0 {
			return err
		}
		if _, err := io.CopyN(to, from, int64(n)); err != nil {
			return err
		}
	}
}

// available waits until bytes have arrived, and returns their number, or 0 at the end.
func available(raw syscall.RawConn) (n int, err error) {
	var first [1]byte
	waitErr := raw.Read(func(fd uintptr) bool {
		for {
			n, _, err = syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK)
			if err != syscall.EINTR {
				break
			}
		}
		if n > 0 {
			if all, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
				n = max(n, all)
			}
		}
		return err != syscall.EAGAIN
	})
	if waitErr != nil {
		return 0, waitErr
	}
	return n, err
}
