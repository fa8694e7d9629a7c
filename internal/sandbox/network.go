package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"asyncrepl/internal/text/pattern"
)

// A Host is one element of a list of hosts that can be reached.
type Host struct {
	Name  string // lower case, without a dot at the end; an address is in its shortest form
	Below bool   // the names below Name, and not Name itself
	Port  int    // the only port that is allowed; 0: every port
}

// mostHosts bounds a list. Each connection is compared with all of it.
const mostHosts = 1000

// packages are the indexes of pip, npm, cargo and Go, and where they send clients for files.
var packages = []string{
	"pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "index.crates.io", "static.crates.io", "crates.io",
	"proxy.golang.org", "sum.golang.org",
}

var hostName = pattern.Lazy(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

// ParseHosts reads a list of HOST or HOST:PORT with commas between. HOST is a name, *.NAME for the names
// below one, an IP address, which has brackets if it is of IPv6, or the word packages.
func ParseHosts(list string) ([]Host, error) {
	var hosts []Host
	for element := range strings.SplitSeq(list, ",") {
		element = strings.TrimSpace(element)
		if element == "packages" {
			for _, name := range packages {
				hosts = append(hosts, Host{Name: name, Port: 443})
			}
			continue
		}
		h, err := ParseHost(element)
		if err != nil {
			return nil, fmt.Errorf("%q %w", element, err)
		}
		if !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	if len(hosts) > mostHosts {
		return nil, fmt.Errorf("%d hosts are more than %d; *.NAME stands for all names below one", len(hosts), mostHosts)
	}
	return hosts, nil
}

// Allows reports whether an element of a list allows a target: a name or an address, and a port.
func (h Host) Allows(target Host) bool {
	switch {
	case h.Port != 0 && h.Port != target.Port:
		return false
	case h.Below:
		return strings.HasSuffix(target.Name, "."+h.Name)
	}
	return h.Name == target.Name
}

// ParseHost reads one element of a list, but not the word packages.
func ParseHost(text string) (h Host, err error) {
	switch {
	case text == "" || text == "none":
		return h, errors.New("is no host")
	case strings.Contains(text, "/"):
		return h, errors.New("is a URL or a range of addresses; write only HOST or HOST:PORT")
	case text == "*" || text == "all":
		return h, errors.New("is every host; write all alone")
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Is6() {
		return h, errors.New("needs brackets around the address")
	}
	name := text
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, ']') {
		name = text[:i]
		if h.Port, err = strconv.Atoi(text[i+1:]); err != nil || h.Port < 1 || h.Port > 65535 {
			return h, errors.New("has no port from 1 to 65535 after its colon")
		}
	}
	bare, bracketed := strings.CutPrefix(name, "[")
	if bracketed {
		bare = strings.TrimSuffix(bare, "]")
	}
	if a, err := netip.ParseAddr(bare); err == nil && a.Zone() == "" && a.Is6() == bracketed {
		h.Name = a.Unmap().String()
		return h, nil
	}
	h.Name = strings.TrimSuffix(strings.ToLower(name), ".")
	h.Name, h.Below = strings.CutPrefix(h.Name, "*.")
	// Resolvers read 2130706433, 0x7f.1 and their like as addresses, and no name ends so.
	last := h.Name[strings.LastIndexByte(h.Name, '.')+1:]
	if !hostName().MatchString(h.Name) || len(h.Name) > 253 || last[0] >= '0' && last[0] <= '9' {
		return h, errors.New("is neither a name nor an address")
	}
	return h, nil
}
