package overview

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestPlacesAreDescribed(t *testing.T) {
	ago := time.Now().Add(-3*time.Minute - 2500*time.Millisecond)
	for want, p := range map[string]Place{
		"gpu, ssh me@gpu-box, connected for 3m2s, version 1.4.0, 2 sessions": {
			Name: "gpu", Kind: "ssh", Where: "me@gpu-box", Reachable: true, Since: ago, Version: "1.4.0", Sessions: make([]Session, 2)},
		"cluster, slurm, out of reach for 3m2s, version 1.4.0, 2 allocations, 3h20m left, held by the variables of lab: ssh: no route to host": {
			Name: "cluster", Kind: "slurm", Since: ago, Why: "ssh: no route to host", Version: "1.4.0", Allocations: 2, TimeLeft: 200 * time.Minute, Holds: "the variables of lab"},
		"pods, kubernetes, not connected yet":               {Name: "pods", Kind: "kubernetes"},
		"pods, kubernetes, out of reach: no such container": {Name: "pods", Kind: "kubernetes", Why: "no such container"},
		`evil, ssh a\nPlace: b, connected`:                  {Name: "evil", Kind: "ssh", Where: "a\nPlace: b", Reachable: true},
	} {
		if got := p.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// The list of sessions names those at places after those here, and bounds them together.
func TestSessionsAtPlacesAreListed(t *testing.T) {
	places := []Place{
		{Name: "gpu", Kind: "exec", Reachable: true, Sessions: []Session{{Name: "lab", Dir: "/work\x1b[2J", Variables: 3}}},
		{Name: "pods", Kind: "kubernetes"},
	}
	const want = "Sessions: 1 of at most 50\nPlace: gpu, exec, connected, 1 session\nPlace: pods, kubernetes, not connected yet\n\n" +
		"own, no Python runs, idle for 0.00s, 0 variables, 0 jobs in 0.00s, 0.00s old, in /\n" +
		`lab, at gpu, no Python runs, idle for 0.00s, 3 variables, 0 jobs in 0.00s, 0.00s old, in /work\x1b[2J` + "\n"
	if got := Sessions([]Session{{Name: "own", Dir: "/"}}, 50, 1000, places).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	places[0].Sessions = make([]Session, 1000)
	got := Sessions(nil, 50, 10_000, places).String()
	if n := utf8.RuneCountInString(got); n > 10_300 || !strings.Contains(got, "\nOmitted: ") {
		t.Errorf("%d characters:\n%s", n, got[:300])
	}
	status := Server{Places: places}.Reply().String()
	if !strings.Contains(status, "\nPlace: gpu, exec, connected, 1,000 sessions\nPlace: pods, kubernetes, not connected yet\n") {
		t.Errorf("the state of the server: %s", status)
	}
}
