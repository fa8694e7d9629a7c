//go:build linux

package proxy_test

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
)

// Whatever a client sends, only addresses of the list are dialled, only names of the list are resolved, and
// what is noted can be printed.
func FuzzRequests(f *testing.F) {
	w := newWorld(f, nil)
	for _, trick := range tricks {
		f.Add([]byte(strings.NewReplacer("SECRET", "127.0.0.1:9", "PORT", "9").Replace(trick.request)))
	}
	f.Add([]byte("CONNECT open.example:80 HTTP/1.1\r\n\r\nGET / HTTP/1.0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, request []byte) {
		w.note(func() { w.dialled, w.refusals, w.wrong, w.asked = nil, nil, nil, make(map[string]int) })
		_, before := w.Open.seen()
		c := must.Get(net.Dial("tcp", w.Addr))(t).(*net.TCPConn)
		defer c.Close()
		c.Write(request)
		c.CloseWrite()
		io.Copy(io.Discard, c)
		w.note(func() {
			for _, to := range w.dialled {
				if !slices.ContainsFunc(reachable, func(p netip.Prefix) bool { return p.Contains(to.Addr()) }) || to.Port() == 0 {
					t.Errorf("%v was dialled", to)
				}
			}
			for _, name := range w.wrong {
				if !strings.HasSuffix(name, ".below.example") {
					t.Errorf("the resolver was asked for %q", name)
				}
			}
			for _, r := range w.refusals {
				if strings.Trim(r.Host, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") != "" || len(r.Host) > 253 || r.Port < 1 || r.Port > 65535 || r.Source == 0 {
					t.Errorf("noted %+v", r)
				}
			}
		})
		_, requests := w.Open.seen()
		for _, r := range requests[len(before):] {
			host, _, _ := strings.Cut(r.Host, ":")
			if !bytes.Contains(request, []byte("CONNECT")) && host != "open.example" && !strings.HasSuffix(host, ".below.example") && host != "10.9.9.9" && host != "127.9.9.9" && !strings.HasPrefix(r.Host, "[2001:db8::9]") {
				t.Errorf("the server got a request for %q", r.Host)
			}
		}
	})
}
