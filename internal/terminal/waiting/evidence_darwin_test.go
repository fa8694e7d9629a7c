package waiting

import "testing"

func TestInferred(t *testing.T) {
	for script, kind := range map[string]string{`read -s x`: kindSecret, `read -n1 x`: kindKey} {
		t.Run(script, func(t *testing.T) {
			p := start(t, []string{"bash", "-c", script})
			n := nextWaiting(t, p.watch(t))
			if n.Kind != kind || !n.inferred || n.pid != p.PID {
				t.Errorf("got %+v, want %s inferred of pid %d", n.Evidence, kind, p.PID)
			}
		})
	}
}
