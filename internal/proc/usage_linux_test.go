package proc

import "testing"

func TestBusiest(t *testing.T) {
	o := newOwner(t)
	h, err := o.Start(Spec{Argv: []string{"bash", "-c", "bash -c 'while :; do :; done' & wait"}, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Climb(Ladder{From: Kill})
	for {
		p, percent, ok := Busiest(h.PID())
		if ok && percent > 5 { // the machine may be busy with others, but the loop never rests
			if p.PID == h.PID() || p.Program != "bash" {
				t.Errorf("the busiest is %+v, not the child", p)
			}
			return
		}
	}
}
