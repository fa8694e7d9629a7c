package process

import "testing"

// A process that runs no more of its program is seen to end before it is a zombie, but not while another thread runs.
func TestEnding(t *testing.T) {
	tests := []struct {
		name, stat string
		want       bool
	}{
		{"runs", "(a b) R) R 1 10 10 34816 10 4194560 0 0 0 0 0 0 0 0 20 0 1 0 5000 0 100", false},
		{"exits", "(a b) R) R 1 10 10 34816 10 4194564 0 0 0 0 0 0 0 0 20 0 1 0 5000 0 100", true},
		{"its first thread exits", "(a b) R) R 1 10 10 34816 10 4194564 0 0 0 0 0 0 0 0 20 0 2 0 5000 0 100", false},
		{"zombie", "(a b) R) Z 1 10 10 0 -1 4194564 0 0 0 0 0 0 0 0 20 0 1 0 5000 0 0", true},
	}
	for _, tt := range tests {
		e, ok := parseStat(10, []byte("10 "+tt.stat+"\n"))
		if !ok || e.Program != "a b) R" || e.Start != 5000 || e.ending() != tt.want {
			t.Errorf("%s: got %+v, %v; ending %v, want %v", tt.name, e, ok, e.ending(), tt.want)
		}
	}
}
