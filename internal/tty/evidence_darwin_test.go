package tty

import "testing"

func TestInferred(t *testing.T) {
	for script, kind := range map[string]string{`read -s x`: Secret, `read -n1 x`: Key} {
		t.Run(script, func(t *testing.T) {
			p := start(t, []string{"bash", "-c", script})
			n := nextWaiting(t, p.watch(t))
			if n.Kind != kind || !n.Inferred || n.PID != p.cmd.Process.Pid {
				t.Errorf("got %+v, want %s inferred of pid %d", n.Evidence, kind, p.cmd.Process.Pid)
			}
		})
	}
}
