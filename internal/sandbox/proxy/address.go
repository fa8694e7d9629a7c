//go:build linux

package proxy

import (
	"net"
	"net/netip"
	"slices"
)

// special are networks to which no name of a list can lead, mostly those of the registries at
// https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry. No name can
// lead to an address of IPv6 outside unicast either.
var special = prefixes(
	"0.0.0.0/8",        // this network; connecting to 0.0.0.0 reaches the machine itself
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // behind a provider's NAT; Alibaba's metadata
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // Azure's metadata, an address that looks public
	"169.254.0.0/16",   // link-local; the metadata of most clouds
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocols; Oracle's metadata
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // relays of 6to4
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, broadcast
	"2001::/23",        // protocols; Teredo, which embeds addresses of IPv4
	"2001:db8::/32",    // documentation
	"2002::/16",        // 6to4, which embeds addresses of IPv4
	"3fff::/20",        // documentation
)

var (
	unicast = netip.MustParsePrefix("2000::/3")     // all addresses of IPv6 that are assigned to the Internet
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // leads to the address of IPv4 in its last bytes
)

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// public reports whether an address is one of the Internet and not of this machine.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if nat64.Contains(a) {
		bytes := a.As16()
		a = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	if a.Is6() && !unicast.Contains(a) || slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return false
	}
	// A connection to an address of the machine's own is one of its loopback: no firewall sees it.
	own, err := net.InterfaceAddrs()
	return err == nil && !slices.ContainsFunc(own, func(o net.Addr) bool {
		n, ok := o.(*net.IPNet)
		return ok && n.IP.Equal(a.AsSlice())
	})
}
