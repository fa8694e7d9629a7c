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
		"cluster, slurm, out of reach for 3m2s, version 1.4.0, 2 allocations: ssh: no route to host": {
			Name: "cluster", Kind: "slurm", Since: ago, Why: "ssh: no route to host", Version: "1.4.0", Allocations: make([]Allocation, 2)},
		"pods, kubernetes, not connected": {Name: "pods", Kind: "kubernetes"},
		"gpu, ssh, out of reach for 3m2s, version 1.4.0, 2 sessions as last known: gpu, lab: no route": {
			Name: "gpu", Kind: "ssh", Since: ago, Why: "no route", Version: "1.4.0", Last: []string{"gpu", "lab"}},
		"cluster, slurm, connected, 1 session, 1 session as last known: b": {
			Name: "cluster", Kind: "slurm", Reachable: true, Sessions: make([]Session, 1), Last: []string{"b"}},
		"pods, kubernetes, out of reach: no such container": {Name: "pods", Kind: "kubernetes", Why: "no such container"},
		`evil, ssh a\nPlace: b, connected`:                  {Name: "evil", Kind: "ssh", Where: "a\nPlace: b", Reachable: true},
	} {
		if got := p.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Each allocation has a line, up to a number of them.
func TestAllocationsAreListed(t *testing.T) {
	p := Place{Name: "cluster", Kind: "slurm", Reachable: true, Allocations: []Allocation{
		{Where: "Slurm job 812, node n2", TimeLeft: 200 * time.Minute, Holds: "2 variables of session lab"},
		{Where: "Slurm job 813, Priority, expected start 14:20", Holds: "job 01M8E5WFCX3YMX5BA2SECJWFQ3"},
		{Where: "Slurm job 814, node n2", TimeLeft: time.Hour, Back: 7 * time.Minute},
		{Where: "Slurm job 815, node n3", Holds: "session a\nPlace: b", Why: "no route to host"},
	}}
	const want = "Place: cluster, slurm, connected, 4 allocations\n" +
		"Allocation: cluster, Slurm job 812, node n2, 3h20m left, held by 2 variables of session lab\n" +
		"Allocation: cluster, Slurm job 813, Priority, expected start 14:20, held by job 01M8E5WFCX3YMX5BA2SECJWFQ3\n" +
		"Allocation: cluster, Slurm job 814, node n2, 1h0m left, unused, goes back in 7m0s\n" +
		`Allocation: cluster, Slurm job 815, node n3, held by session a\nPlace: b, out of reach: no route to host` + "\n"
	if got := Sessions(nil, 50, 1000, []Place{p}).String(); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p.Allocations = append(p.Allocations, make([]Allocation, 40)...)
	got := Server{Places: []Place{p}}.Reply().String()
	if n := strings.Count(got, "\nAllocation: cluster, "); n != 21 || !strings.Contains(got, "\nAllocation: cluster, 24 more\n") {
		t.Errorf("%d lines:\n%s", n, got)
	}
}

// The list of sessions names those at places after those here, and bounds them together.
func TestSessionsAtPlacesAreListed(t *testing.T) {
	places := []Place{
		{Name: "gpu", Kind: "exec", Reachable: true, Sessions: []Session{
			{Name: "lab", Dir: "/work\x1b[2J", Variables: 3}, {Name: "big", Where: "Slurm job 812, node n2", Dir: "/work"}}},
		{Name: "pods", Kind: "kubernetes"},
	}
	const want = "Sessions: 1 of at most 50\nPlace: gpu, exec, connected, 2 sessions\nPlace: pods, kubernetes, not connected\n\n" +
		"own, no Python runs, idle for 0.00s, 0 variables, 0 jobs in 0.00s, 0.00s old, in /\n" +
		`lab, at gpu, no Python runs, idle for 0.00s, 3 variables, 0 jobs in 0.00s, 0.00s old, in /work\x1b[2J` + "\n" +
		"big, at gpu (Slurm job 812, node n2), no Python runs, idle for 0.00s, 0 variables, 0 jobs in 0.00s, 0.00s old, in /work\n"
	if got := Sessions([]Session{{Name: "own", Dir: "/"}}, 50, 1000, places).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	places[0].Sessions = make([]Session, 1000)
	got := Sessions(nil, 50, 10_000, places).String()
	if n := utf8.RuneCountInString(got); n > 10_300 || !strings.Contains(got, "\nOmitted: ") {
		t.Errorf("%d characters:\n%s", n, got[:300])
	}
	status := Server{Places: places}.Reply().String()
	if !strings.Contains(status, "\nPlace: gpu, exec, connected, 1,000 sessions\nPlace: pods, kubernetes, not connected\n") {
		t.Errorf("the state of the server: %s", status)
	}
}
