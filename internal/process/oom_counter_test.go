//go:build linux

package process

import (
	"errors"
	"testing"
)

// One kill by the kernel explains one death.
func TestOneKillExplainsOneDeath(t *testing.T) {
	count := uint64(7)
	c := newOOMCounter(func() (uint64, error) { return count, nil })
	since := c.Recent()
	if c.Claim(since) {
		t.Error("claimed a kill that did not happen")
	}
	count += 2
	for i, want := range []bool{true, true, false} {
		if got := c.Claim(since); got != want {
			t.Errorf("claim %d: got %v, want %v", i, got, want)
		}
	}
}

// While the count can't be read, no death is attributed to the kernel. A child that was started
// then is never attributed to it.
func TestUnknownCountExplainsNothing(t *testing.T) {
	count, err := uint64(7), errors.New("no descriptor")
	c := newOOMCounter(func() (uint64, error) { return count, err })
	since := c.Recent()
	if c.Claim(since) {
		t.Error("claimed a kill from an unknown count")
	}
	err = nil
	if c.Claim(since) {
		t.Error("claimed a kill from before the count was known")
	}
	count++
	if !c.Claim(7) {
		t.Error("did not claim the kernel's kill")
	}
}
