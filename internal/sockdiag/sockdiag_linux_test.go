package sockdiag_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/sockdiag"
)

// listening is a request for all listening TCP sockets of IPv4: a struct inet_diag_req_v2.
func listening() []byte {
	request := make([]byte, 56)
	request[0], request[1] = unix.AF_INET, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(request[4:], 1<<10)
	return request
}

// A dump has one answer for each socket, however many parts it comes in.
func TestDumpIsComplete(t *testing.T) {
	const n = 300
	want := make(map[uint16]bool)
	for range n {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		want[uint16(l.Addr().(*net.TCPAddr).Port)] = true
	}
	answers, err := sockdiag.Query(listening(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		delete(want, binary.BigEndian.Uint16(a[4:]))
	}
	if len(want) > 0 {
		t.Errorf("%d of %d sockets are missing among %d", len(want), n, len(answers))
	}
}

// The kernel's refusal is a bare errno.
func TestRefusalIsAnErrno(t *testing.T) {
	request := make([]byte, 24) // a struct unix_diag_req for a socket that is not there
	request[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(request[8:], 1)
	if answers, err := sockdiag.Query(request, false); err != unix.ENOENT || answers != nil {
		t.Errorf("got %v, %v; want %v", answers, err, unix.ENOENT)
	}
}

func Example() {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	answers, err := sockdiag.Query(listening(), true)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range answers {
		if int(binary.BigEndian.Uint16(a[4:])) == l.Addr().(*net.TCPAddr).Port {
			fmt.Println("found")
		}
	}
	// Output: found
}
