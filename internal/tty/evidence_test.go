//go:build unix

package tty

import "testing"

// A guess must not read as what the kernel has shown.
func TestBy(t *testing.T) {
	ev := Evidence{PID: 812, Program: "sudo", Kind: Secret}
	if got, want := ev.By(), "read by sudo (pid 812)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ev.Inferred = true
	if got, want := ev.By(), "inferred from the terminal's mode, which sudo (pid 812) has set"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
