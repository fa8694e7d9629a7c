package process

import "testing"

func TestBusiest(t *testing.T) {
	o := newOwner(t)
	h, err := o.Start(Spec{Argv: []string{"bash", "-c", "bash -c 'while :; do :; done' & wait"}, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Climb(Ladder{From: Kill})
	for { // the leader itself is the busiest while it starts
		p, percent, err := h.Busiest()
		if err == nil && percent > 5 && p.PID != h.PID() && p.Program == "bash" {
			return
		}
	}
}
