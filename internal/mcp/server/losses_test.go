package server

import (
	"strings"
	"testing"

	"asyncrepl/internal/engine"
)

// The death of an idle interpreter is announced to each connection by the next reply, whatever that
// is about, and only once.
func TestLossIsAnnouncedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	loss := &engine.Loss{Session: "lab", Job: "01A", How: "was killed by SIGKILL", Names: []string{"a", "b"}}
	w.vars["lab"] = engine.Variables{Lost: loss}
	const line = "Lost: session lab's Python was killed by SIGKILL after job 01A; variables lost: a, b\n"
	c, other := w.dial(engine.Scope{}), w.dial(engine.Scope{})
	w.lose(loss)
	if got := c.call("execute_python", given{"code": `out "x"`}); !strings.Contains(got, "\nCursor: 1\n"+line+"\n--- STDOUT ---\nx\n") {
		t.Errorf("the first reply:\n%s", got)
	}
	const none = "No variables: session lab's Python was killed by SIGKILL after job 01A."
	if got := c.call("list_variables", given{"session": "lab"}); got != none {
		t.Errorf("the next reply: %q", got)
	}
	if got := other.call("list_variables", given{"session": "lab"}); got != none+"\n"+line {
		t.Errorf("the first reply on another connection: %q", got)
	}
	w.lose(&engine.Loss{Session: "lab", Job: "01B", How: "exited 1"})
	if got, want := field(c.call("list_jobs", nil), "Lost"), "session lab's Python exited 1 after job 01B; variables lost"; got != want {
		t.Errorf("the next loss: %q, want %q", got, want)
	}
}

// lose sets what the backend reports as lost.
func (w *world) lose(losses ...*engine.Loss) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.losses = losses
}
