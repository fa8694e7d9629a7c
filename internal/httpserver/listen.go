package httpserver

import (
	"fmt"
	"net"
)

// Listen listens on a TCP address of this machine's loopback.
func Listen(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !isLoopback(host) {
		return nil, fmt.Errorf("listening on %q: only addresses of the loopback can be served, such as 127.0.0.1:8000", address)
	}
	return net.Listen("tcp", address)
}
