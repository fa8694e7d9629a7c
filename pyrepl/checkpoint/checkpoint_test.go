package checkpoint_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"asyncrepl/pyrepl/checkpoint"
)

// A state lives until it is killed.
type state struct {
	killed, closed bool
	memory         int64
}

func (s *state) Ended() string {
	if s.killed {
		return "was killed"
	}
	return ""
}

func (s *state) Memory() int64 { return s.memory }
func (s *state) Close()        { s.closed = true }

// A kept is a set, and the states that were added to it.
type kept struct {
	checkpoint.Set[*state]
	states map[string]*state
}

// add adds the checkpoint of a session after a job, which is made at a time.
func (k *kept) add(owner any, session string, at int) (dropped *checkpoint.Gone) {
	job := fmt.Sprintf("J%d", at)
	k.states[job] = new(state)
	return k.Add(checkpoint.Point[*state]{Owner: owner, Session: session, Job: job, Made: time.Unix(int64(at), 0), State: k.states[job]})
}

func newKept() *kept { return &kept{states: make(map[string]*state)} }

// finds checks which checkpoint is found, or what the error says.
func (k *kept) finds(t *testing.T, owner any, job, want, newer string) {
	t.Helper()
	p, gone, err := k.Find(owner, "s", job)
	got := p.Job
	if err != nil {
		got = err.Error()
	}
	if !strings.HasPrefix(got, want) || got == "" || gone.String() != newer {
		t.Errorf("%s: %q, newer %q; want %q, %q", job, got, gone, want, newer)
	}
}

// The newest few are kept. What became of another is known: which one was dropped, and for what.
func TestNewestAreKept(t *testing.T) {
	k := newKept()
	one, other := new(int), new(string)
	k.finds(t, one, "latest", "session s has no checkpoint", "")
	if k.Has(one) || k.Dropped(one) != "" {
		t.Error("a session has checkpoints before its first")
	}
	for at := range checkpoint.Max {
		if dropped := k.add(one, "s", at); dropped != nil {
			t.Errorf("dropped: %v", dropped)
		}
	}
	const gone = "the checkpoint of job J0 is gone: it was dropped for a newer one, of which 5 are kept"
	if got := k.add(other, "t", 5).String(); got != gone || !k.states["J0"].closed {
		t.Errorf("dropped: %q, %+v; want %q", got, k.states["J0"], gone)
	}
	k.finds(t, one, "latest", "J4", "")
	k.finds(t, one, "J0", gone+"; there are those of J1, J2, J3, J4", "")
	k.finds(t, one, "J5", "the checkpoint of job J5 is one of session t, not of s", "")
	k.finds(t, one, "J9", "session s has no checkpoint of job J9; there are those of J1, J2, J3, J4", "")
	if got, want := k.Dropped(one), "checkpoints dropped: J1, J2, J3, J4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	k.Drop(one)
	k.finds(t, one, "latest", "the checkpoint of job J4 is gone: it was dropped with its session", "")
	if list := k.List(); len(list) != 1 || list[0].Job != "J5" || k.Has(one) || !k.Has(other) {
		t.Errorf("left are %+v", list)
	}
}

// A checkpoint whose process has ended is closed and not listed. The latest is then the newest one
// that lives, and the newer one is named.
func TestEndedAreGone(t *testing.T) {
	k := newKept()
	owner := new(int)
	for at := range 3 {
		k.add(owner, "s", at)
	}
	k.states["J1"].killed, k.states["J2"].killed = true, true
	const gone = "the checkpoint of job J2 is gone: its process was killed"
	k.finds(t, owner, "latest", "J0", gone)
	k.finds(t, owner, "J0", "J0", "")
	k.finds(t, owner, "J2", gone+"; there are those of J0", "")
	if !k.states["J1"].closed || len(k.List()) != 1 {
		t.Errorf("%+v is not closed; %+v", k.states["J1"], k.List())
	}
	k.add(owner, "s", 3)
	k.finds(t, owner, "latest", "J3", "")
}

// A set forgets what became of a checkpoint when many others are gone.
func TestGoneAreForgotten(t *testing.T) {
	k := newKept()
	owner := new(int)
	for at := range 100 {
		k.add(owner, "s", at)
	}
	missing := new(checkpoint.MissingError)
	if _, _, err := k.Find(owner, "s", "J0"); !errors.As(err, &missing) || missing.Gone != nil {
		t.Errorf("the first one: %v", err)
	}
	if _, _, err := k.Find(owner, "s", "J94"); !errors.As(err, &missing) || missing.Gone == nil {
		t.Errorf("the last one that was dropped: %v", err)
	}
}

// A session has a newest checkpoint while one of its own lives.
func TestNewest(t *testing.T) {
	k := newKept()
	one, other := new(int), new(string)
	k.add(one, "s", 1)
	k.add(one, "s", 2)
	k.add(other, "o", 3)
	for _, want := range []string{"J2", "J1", ""} {
		if got := k.Newest(one); got != want {
			t.Errorf("the newest checkpoint is that of %q, want %q", got, want)
		}
		if want != "" {
			k.states[want].killed = true
		}
	}
}

// What checkpoints hold is said once it is much.
func TestHolds(t *testing.T) {
	k := newKept()
	for i, tt := range []struct {
		memory int64
		want   string
	}{{0, ""}, {63 << 20, ""}, {1 << 20, "3 hold 64 MiB"}, {959 << 20, "4 hold 1023 MiB"}, {1230 << 20, "5 hold 2.2 GiB"}} {
		k.add(nil, "s", i)
		k.states[fmt.Sprintf("J%d", i)].memory = tt.memory
		if got := k.Holds(); got != tt.want {
			t.Errorf("%d checkpoints: %q, want %q", i+1, got, tt.want)
		}
	}
	k = newKept()
	k.add(nil, "s", 1)
	k.states["J1"].memory = 100 << 20
	if got := k.Holds(); got != "1 holds 100 MiB" {
		t.Errorf("one checkpoint: %q", got)
	}
}
