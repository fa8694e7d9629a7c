//go:build linux

package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// addresses must not be reached, neither literally nor through a name that the list allows.
var addresses = []string{
	"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
	"100.64.0.1", "100.100.100.200", "169.254.0.1", "169.254.169.254", "168.63.129.16", "192.0.0.192", "192.0.2.1",
	"192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1",
	"255.255.255.255",
	"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::ffff:0:127.0.0.1",
	"64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::1", "2002:a00:1::1",
	"2001::1", "2001:0:7f00:1::", "2001:db8::1", "3fff::1", "fe80::1", "fe80::1%lo", "fec0::1", "fc00::1", "fd00:ec2::254",
	"ff02::1", "100::1", "5f00::1", "4000::1",
}

// Each address is asked for literally, and through an allowed name. The proxy refuses, and says so first.
func TestSpecialAddressesAreNotReached(t *testing.T) {
	for _, address := range addresses {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			literal := address
			if strings.Contains(address, ":") {
				literal = "[" + address + "]"
			}
			name := "x" + strings.NewReplacer(":", "-", ".", "_").Replace(address) + "x.address.below.example"
			if strings.Contains(address, "%") {
				name, literal = "", "[fe80::1%25lo]"
			}
			for _, host := range []string{literal, name} {
				for _, ask := range []struct{ method, text string }{
					{"CONNECT", "CONNECT %s:%d HTTP/1.1\r\n\r\n"},
					{"GET", "GET http://%s:%d/ HTTP/1.1\r\nHost: open.example\r\n\r\n"},
				} {
					if host == "" {
						continue
					}
					c := w.connect(t)
					c.send(t, fmt.Sprintf(ask.text, host, w.Secret.port()))
					if r, body := c.answer(t, ask.method); r.StatusCode != 403 && !(r.StatusCode == 400 && strings.Contains(host, "%")) {
						t.Errorf("%s %s: got %s\n%s", ask.method, host, r.Status, body)
					} else if r.StatusCode == 403 && !strings.Contains(body, setting) {
						t.Errorf("%s %s: the answer does not name the setting: %s", ask.method, host, body)
					}
				}
			}
			w.untouched(t)
		})
	}
}

// tricks are requests that must reach nothing but the open server. SECRET is HOST:PORT of the secret server,
// and PORT its port. The status is that of the last response.
var tricks = []struct {
	name    string
	request string
	status  []int
}{
	{"name that is not listed", "CONNECT evil.example:PORT HTTP/1.1\r\n\r\n", []int{403}},
	{"case and dot", "CONNECT EVIL.Example.:PORT HTTP/1.1\r\n\r\n", []int{403}},
	{"localhost", "CONNECT localhost:PORT HTTP/1.1\r\n\r\n", []int{403}},
	{"localhost in capitals", "CONNECT LOCALHOST.:PORT HTTP/1.1\r\n\r\n", []int{403}},
	{"below a listed name", "CONNECT a.open.example:PORT HTTP/1.1\r\n\r\n", []int{403}},
	{"above the names below", "CONNECT below.example:PORT HTTP/1.1\r\n\r\n", []int{403}},
	{"listed name as a prefix", "CONNECT open.example.evil.example:PORT HTTP/1.1\r\n\r\n", []int{403}},
	{"listed name as a suffix", "CONNECT evilopen.example:PORT HTTP/1.1\r\n\r\n", []int{403}},
	{"names below as a suffix", "CONNECT evilbelow.example:PORT HTTP/1.1\r\n\r\n", []int{403}},
	{"other port", "CONNECT pypi.org:80 HTTP/1.1\r\n\r\n", []int{403}},
	{"other port over HTTP", "GET http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\n\r\n", []int{403}},
	{"other port of an address", "CONNECT 10.9.9.9:PORT HTTP/1.1\r\n\r\n", []int{403}},

	{"zero", "CONNECT 0:PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"one number", "CONNECT 2130706433:PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"one hexadecimal number", "CONNECT 0x7f000001:PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"two numbers", "CONNECT 127.1:PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"two numbers, one hexadecimal", "CONNECT 0x7f.1:PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"octal", "CONNECT 0177.0.0.1:PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"more zeros", "CONNECT 127.000.000.001:PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"dot after an address", "CONNECT 127.0.0.1.:PORT HTTP/1.1\r\n\r\n", []int{400, 403}},
	{"number below a listed name", "CONNECT below.example.1:PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"address of IPv4 in brackets", "CONNECT [127.0.0.1]:PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"address of IPv6 without brackets", "CONNECT ::1:PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"mapped address in hexadecimal", "CONNECT [::FFFF:7F00:1]:PORT HTTP/1.1\r\n\r\n", []int{403}},
	{"numbers over HTTP", "GET http://2130706433:PORT/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"zero over HTTP", "GET http://0:PORT/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"percent over HTTP", "GET http://%31%32%37.0.0.1:PORT/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"wide digits", "GET http://１２７.0.0.1:PORT/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"wide dot", "CONNECT evil.example。below.example:PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"NUL", "CONNECT evil.example%00.below.example:PORT HTTP/1.1\r\n\r\n", []int{400}},

	{"no port", "CONNECT open.example HTTP/1.1\r\n\r\n", []int{400}},
	{"empty port", "CONNECT open.example: HTTP/1.1\r\n\r\n", []int{400}},
	{"port 0", "CONNECT open.example:0 HTTP/1.1\r\n\r\n", []int{400}},
	{"port 0 over HTTP", "GET http://open.example:0/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"port 65536", "CONNECT open.example:65536 HTTP/1.1\r\n\r\n", []int{400}},
	{"port that wraps", "CONNECT open.example:4295032832 HTTP/1.1\r\n\r\n", []int{400}},
	{"two ports", "CONNECT open.example:80:PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"path as a target", "CONNECT /open.example:80 HTTP/1.1\r\n\r\n", []int{400}},
	{"target with a path", "CONNECT open.example:80/SECRET HTTP/1.1\r\n\r\n", []int{400}},
	{"target with a query", "CONNECT open.example:80?SECRET HTTP/1.1\r\n\r\n", []int{400}},
	{"URL as a target", "CONNECT http://open.example:80/ HTTP/1.1\r\n\r\n", []int{400}},
	{"user in a target", "CONNECT open.example:80@SECRET HTTP/1.1\r\n\r\n", []int{400}},
	{"user before a listed name", "CONNECT SECRET@open.example:80 HTTP/1.1\r\n\r\n", []int{400}},
	{"blank in a target", "CONNECT open.example:80 SECRET HTTP/1.1\r\n\r\n", []int{400}},
	{"tab in a target", "CONNECT open.example:80\tSECRET HTTP/1.1\r\n\r\n", []int{400}},
	{"pattern as a target", "CONNECT *.below.example:80 HTTP/1.1\r\n\r\n", []int{400}},
	{"star as a target", "CONNECT *:80 HTTP/1.1\r\n\r\n", []int{400}},
	{"no target", "CONNECT HTTP/1.1\r\n\r\n", []int{400}},
	{"empty name", "CONNECT :PORT HTTP/1.1\r\n\r\n", []int{400}},
	{"Host of CONNECT", "CONNECT evil.example:PORT HTTP/1.1\r\nHost: open.example:80\r\n\r\n", []int{403}},
	{"CONNECT with a length", "CONNECT open.example:80 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", []int{400}},
	{"CONNECT with chunks", "CONNECT open.example:80 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{400}},

	{"user in a URL", "GET http://open.example@SECRET/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"user and port in a URL", "GET http://open.example:80@SECRET/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"secret as a user", "GET http://SECRET@open.example/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"backslash in a URL", "GET http://open.example\\@SECRET/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"fragment in a URL", "GET http://SECRET#@open.example/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400, 403}},
	{"https", "GET https://open.example/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"ftp", "GET ftp://open.example/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"file", "GET file:///etc/passwd HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"no scheme", "GET //SECRET/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"no host", "GET http:///SECRET HTTP/1.1\r\nHost: SECRET\r\n\r\n", []int{400}},
	{"no slashes", "GET http:SECRET HTTP/1.1\r\nHost: SECRET\r\n\r\n", []int{400}},
	{"only a path", "GET / HTTP/1.1\r\nHost: SECRET\r\n\r\n", []int{400}},
	{"two headers Host", "GET http://open.example/ HTTP/1.1\r\nHost: open.example\r\nHost: SECRET\r\n\r\n", []int{400}},
	{"blank before a colon", "GET http://open.example/ HTTP/1.1\r\nHost: open.example\r\nX : SECRET\r\n\r\n", []int{400}},
	{"second request of a connection", "GET http://open.example/ HTTP/1.1\r\nHost: open.example\r\n\r\nGET http://SECRET/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{200, 403}},
	{"CONNECT after a request", "GET http://open.example/ HTTP/1.1\r\nHost: open.example\r\n\r\nCONNECT SECRET HTTP/1.1\r\n\r\n", []int{200, 403}},
	{"upgrade", "GET http://SECRET/ HTTP/1.1\r\nHost: open.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", []int{501}},
	{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{400, 505}},

	{"two lengths", "POST http://open.example/ HTTP/1.1\r\nHost: open.example\r\nContent-Length: 0\r\nContent-Length: 50\r\n\r\nGET http://SECRET/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"two lengths in one header", "POST http://open.example/ HTTP/1.1\r\nHost: open.example\r\nContent-Length: 0, 50\r\n\r\nGET http://SECRET/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{400}},
	{"length with a sign", "POST http://open.example/ HTTP/1.1\r\nHost: open.example\r\nContent-Length: +3\r\n\r\nabc", []int{400}},
	{"length and chunks", "POST http://open.example/ HTTP/1.1\r\nHost: open.example\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://SECRET/ HTTP/1.1\r\nHost: open.example\r\n\r\n", []int{200, 403}},
	{"unknown coding", "POST http://open.example/ HTTP/1.1\r\nHost: open.example\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", []int{501}},
	{"two codings", "POST http://open.example/ HTTP/1.1\r\nHost: open.example\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", []int{501}},
	{"chunk of a wrong size", "POST http://open.example/ HTTP/1.1\r\nHost: open.example\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", []int{502, 400}},
}

// Whatever a request looks like, it reaches no server but those of the list.
func TestTricksReachNothing(t *testing.T) {
	for _, test := range tricks {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			c := w.connect(t)
			c.send(t, strings.NewReplacer("SECRET", fmt.Sprintf("127.0.0.1:%d", w.Secret.port()), "PORT", fmt.Sprint(w.Secret.port())).Replace(test.request))
			want := test.status
			first, body := c.answer(t, "")
			if first.StatusCode == 200 {
				if want[0] != 200 {
					t.Errorf("got %s\n%s", first.Status, body)
				}
				first, body = c.answer(t, "")
				want = want[1:]
			}
			if s := first.StatusCode; s != want[0] && s != want[len(want)-1] {
				t.Errorf("got %s\n%s", first.Status, body)
			}
			w.untouched(t)
			_, requests := w.Open.seen()
			for _, r := range requests {
				if r.Host != "open.example" {
					t.Errorf("the open server got a request for %q", r.Host)
				}
			}
		})
	}
}

// A name that changes its address is refused at the next request, and each request asks the resolver once.
func TestNameThatChangesItsAddress(t *testing.T) {
	w := newWorld(t, nil)
	for i, want := range []int{200, 403, 403} {
		c := w.connect(t)
		c.send(t, fmt.Sprintf("CONNECT rebind.below.example:%d HTTP/1.1\r\n\r\n", w.Secret.port()))
		if r, body := c.answer(t, "CONNECT"); r.StatusCode != want {
			t.Errorf("%d: got %s\n%s", i, r.Status, body)
		}
		c = w.connect(t)
		c.send(t, "GET http://rebind-http.below.example/ HTTP/1.1\r\nHost: open.example\r\n\r\n")
		if r, body := c.answer(t, ""); r.StatusCode != want {
			t.Errorf("%d over HTTP: got %s\n%s", i, r.Status, body)
		}
	}
	w.note(func() {
		if w.asked["rebind.below.example"] != 3 || w.asked["rebind-http.below.example"] != 3 {
			t.Errorf("the resolver was asked %v", w.asked)
		}
	})
	w.untouched(t)
}

// A client that follows a redirect asks for its target, which is refused.
func TestRedirectIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.Open.answer(func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "http://"+w.Secret.addr().String()+"/", http.StatusFound)
	})
	r, err := w.httpClient(t).Get("http://open.example/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != 403 || r.Request.URL.Host != w.Secret.addr().String() {
		t.Errorf("got %s for %s", r.Status, r.Request.URL)
	}
	w.untouched(t)
}
