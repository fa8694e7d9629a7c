package keys_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/terminal/keys"
	"asyncrepl/internal/test/must"
)

// A key that is sent to another machine presses there what it would press here, in all modes.
func TestKeysTravel(t *testing.T) {
	sent := keys.Sequence{keys.Text("é\x00\"")}
	for _, name := range append(keys.Names(), "ctrl-c", "alt-x", "ctrl-alt-left", "shift-tab") {
		k, ok := keys.Parse(name)
		if !ok {
			t.Fatalf("there is no key %q", name)
		}
		sent = append(sent, k)
	}
	b := must.Get(json.Marshal(sent))(t)
	var got keys.Sequence
	must.Do(t, json.Unmarshal(b, &got))
	for _, m := range []keys.Modes{{}, {ApplicationCursor: true}} {
		if d := cmp.Diff(sent.Bytes(m), got.Bytes(m)); d != "" {
			t.Errorf("%+v: %s", m, d)
		}
	}
	if err := json.Unmarshal([]byte(`{"name":"ctrl-"}`), new(keys.Key)); err == nil {
		t.Error("a key that is none is taken")
	}
}
