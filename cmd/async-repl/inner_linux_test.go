package main

import (
	"net"
	"slices"
	"testing"

	"asyncrepl/internal/client/channel"
	"asyncrepl/internal/test/must"
)

// The environment inside names what is there, and no way out that leads nowhere.
func TestEnvironOfASandbox(t *testing.T) {
	l := must.Get(net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer l.Close()
	proxy := "http://" + l.Addr().String()
	given := []string{"HOME=/h", "TMPDIR=/none/there", "TMP=" + t.TempDir(), "https_proxy=http://corp:1", "NO_PROXY=corp", "A=b", "PNPM_HOME=/usr/none"}
	for name, c := range map[string]struct {
		in   inside
		has  []string
		hasn []string
	}{
		"none": {inside{Inner: &channel.Inner{}}, nil, []string{"https_proxy=http://corp:1", "NO_PROXY=corp", "GOMODCACHE=/h/.cache/go-mod"}},
		"all": {inside{Inner: &channel.Inner{Birth: channel.Birth{Network: true}}},
			[]string{"https_proxy=http://corp:1", "NO_PROXY=corp", "GOMODCACHE=/h/.cache/go-mod"}, nil},
		"list": {inside{Inner: &channel.Inner{}, proxy: l},
			[]string{"https_proxy=" + proxy, "HTTP_PROXY=" + proxy, "NO_PROXY=" + ownNames, "GOMODCACHE=/h/.cache/go-mod"}, []string{"https_proxy=http://corp:1"}},
	} {
		got := c.in.environ(given)
		for _, want := range append(c.has, "A=b", "HOME=/h", given[2], "PNPM_HOME=/h/.cache/pnpm", "BUN_INSTALL_CACHE_DIR=/h/.cache/bun", "UV_TOOL_DIR=/h/.cache/uv-tools") {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %s is not in %q", name, want, got)
			}
		}
		for _, not := range append(c.hasn, "TMPDIR=/none/there", "PNPM_HOME=/usr/none") {
			if slices.Contains(got, not) {
				t.Errorf("%s: %s is in %q", name, not, got)
			}
		}
	}
	for own, not := range map[string]string{
		"GOMODCACHE=/m": "GOMODCACHE=/h/.cache/go-mod", "GOPATH=/p": "GOMODCACHE=/h/.cache/go-mod", "PNPM_HOME=" + t.TempDir(): "PNPM_HOME=/h/.cache/pnpm",
		"UV_TOOL_DIR=/u": "UV_TOOL_DIR=/h/.cache/uv-tools",
	} {
		in := inside{Inner: &channel.Inner{Birth: channel.Birth{Network: true}}}
		if got := in.environ([]string{"HOME=/h", own}); !slices.Contains(got, own) || slices.Contains(got, not) {
			t.Errorf("%s is set, and got %q", own, got)
		}
	}
}
