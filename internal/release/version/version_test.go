package version

import (
	"debug/buildinfo"
	"regexp"
	"runtime/debug"
	"testing"
)

func TestOf(t *testing.T) {
	for stamp, want := range map[string]string{
		"":                                   Release,
		"(devel)":                            Release,
		"v1.2.3":                             "1.2.3",
		"v0.0.0-20261122032441-0123456789ab": Release + "+g0123456789ab",
		"v0.0.0-20261122032441-0123456789ab+dirty":  Release + "+g0123456789ab.modified",
		"v1.2.4-0.20261122032441-0123456789ab":      Release + "+g0123456789ab",
		"v1.2.4-rc.1.0.20261122032441-0123456789ab": Release + "+g0123456789ab",
		"v1.2.3+dirty": "1.2.3+modified",
		"v1.2.4-rc.1":  Release, // not a release
		"v1.2.3-20261122032441-0123456789ab-trailer": Release,
	} {
		got := Of(&buildinfo.BuildInfo{Main: debug.Module{Version: stamp}})
		if got != want {
			t.Errorf("%q: got %s, want %s", stamp, got, want)
		}
		// The form of PEP 440 that needs no normalizing, because file names of wheels are compared.
		if !regexp.MustCompile(`^[0-9]+(\.[0-9]+)*(\.dev[0-9]+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?$`).MatchString(got) {
			t.Errorf("%q: %s is not a version of a Python package", stamp, got)
		}
	}
}
