package arguments

import (
	"strings"
	"testing"

	"asyncrepl/internal/terminal/keys"
)

// Elements of keys are keys and text. What looks like a key is never typed as text.
func TestKeysAndText(t *testing.T) {
	for _, c := range []struct {
		list []string
		want string // empty: refused
	}{
		{[]string{"up", "enter"}, "\x1b[A\r"},
		{[]string{"q"}, "q"},
		{[]string{"i", "hello", "esc", ":wq", "enter"}, "ihello\x1b:wq\r"},
		{[]string{"ctrl-r", "make", "enter"}, "\x12make\r"},
		{[]string{"hello world"}, "hello world"},
		{[]string{"make\n"}, "make\n"},
		{[]string{":wq"}, ":wq"},
		{[]string{"42"}, "42"},
		{[]string{"light", "center", "home town", "some", "enter"}, "lightcenterhome townsome\r"},
		{[]string{"c-3po", "s-expr", "update", "^abc", "enter"}, "c-3pos-exprupdate^abc\r"},
		{[]string{"hello"}, ""},
		{[]string{"hello", "world"}, ""},
		{[]string{"q", "entr"}, ""},
		{[]string{"q", "<Esc>"}, ""},
		{[]string{"q", "up_arrow"}, ""},
		{[]string{"q", "KEY_UP"}, ""},
		{[]string{"q", "page-down"}, ""},
		{[]string{"q", "cmd-c"}, ""},
		{[]string{"q", "ctrl-enter"}, ""},
		{[]string{"q", "ctrl-"}, ""},
		{[]string{"q", "c-é"}, ""},
		{[]string{"q", "^1"}, ""},
		{[]string{"q", "f13"}, "qf13"},
		{[]string{"/", "F200", "enter"}, "/F200\r"},
		{[]string{"f200"}, ""},
		{[]string{"q", "f0"}, ""},
		{[]string{"a", "<f13>", "b"}, ""},
		{[]string{"a", "KEY_F24", "b"}, ""},
		{[]string{"a", "[F13]", "b"}, ""},
		{[]string{"a", "f99x", "if13", "b"}, "af99xif13b"},
		{[]string{"up up"}, ""},
		{[]string{"C-x C-s"}, ""},
		{[]string{"ctrl-x ctrl-s"}, ""},
		{[]string{"enter a b enter", "enter"}, "enter a b enter\r"},
		{[]string{"q", ""}, ""},
	} {
		a := &Args{Keys: c.list}
		got, err := a.KeySequence()
		if text := strings.Join(got.Bytes(keys.Modes{}), ""); text != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v", c.list, text, err)
		}
		if c.want != "" {
			continue
		}
		a.Secret = true
		_, err = a.KeySequence()
		for _, element := range c.list {
			if len(element) > 5 && strings.Contains(err.Error(), element) || strings.Contains(err.Error(), "Did you mean") {
				t.Errorf("%q: the refusal shows something of a secret: %v", c.list, err)
			}
		}
	}
}
