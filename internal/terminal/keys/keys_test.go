package keys_test

import (
	"errors"
	"fmt"
	"testing"

	"asyncrepl/internal/terminal/keys"
	"asyncrepl/internal/text/escape"
)

func Example() {
	up, _ := keys.Parse("up")
	quit, _ := keys.Parse("ctrl-c")
	fmt.Printf("%q\n", keys.Sequence{up, quit}.Bytes(keys.Modes{}))

	var modes escape.Modes
	modes.Write([]byte("\x1b[?1h\x1b=")) // what less prints when it begins
	fmt.Printf("%q\n", keys.Sequence{up, keys.Text("q")}.Bytes(keys.ModesOf(&modes)))
	// Output:
	// ["\x1b[A" "\x03"]
	// ["\x1bOA" "q"]
}

// The bytes of xterm, as terminfo and its list of control sequences have them.
func TestKeysSendWhatXtermSends(t *testing.T) {
	for name, want := range map[string]string{
		"enter": "\r", "tab": "\t", "esc": "\x1b", "space": " ", "backspace": "\x7f", "delete": "\x1b[3~", "insert": "\x1b[2~",
		"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
		"pageup": "\x1b[5~", "pagedown": "\x1b[6~",
		"f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~", "f7": "\x1b[18~",
		"f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",

		"Return": "\r", "ESCAPE": "\x1b", "Del": "\x1b[3~", "PgUp": "\x1b[5~", "PageDown": "\x1b[6~",

		"ctrl-a": "\x01", "ctrl-C": "\x03", "ctrl+c": "\x03", "control-c": "\x03", "C-c": "\x03", "^C": "\x03", "^c": "\x03", "c-c": "\x03",
		"ctrl-z": "\x1a", "ctrl-[": "\x1b", `ctrl-\`: "\x1c", "ctrl-]": "\x1d", "ctrl-^": "\x1e", "ctrl-_": "\x1f", "ctrl-/": "\x1f",
		"ctrl-@": "\x00", "ctrl-space": "\x00", "ctrl-?": "\x7f", "^[": "\x1b", "^?": "\x7f", "^@": "\x00", "^^": "\x1e",
		"ctrl-backspace": "\b",

		"alt-x": "\x1bx", "alt-X": "\x1bX", "M-x": "\x1bx", "meta-x": "\x1bx", "alt-.": "\x1b.", "alt--": "\x1b-", "alt-é": "\x1bé",
		"alt-enter": "\x1b\r", "alt-backspace": "\x1b\x7f", "alt-space": "\x1b ", "alt-esc": "\x1b\x1b",
		"shift-a": "A", "alt-shift-a": "\x1bA", "S-Tab": "\x1b[Z", "shift-tab": "\x1b[Z",
		"ctrl-alt-c": "\x1b\x03", "C-M-c": "\x1b\x03", "alt-ctrl-backspace": "\x1b\b",

		"shift-up": "\x1b[1;2A", "alt-left": "\x1b[1;3D", "ctrl-right": "\x1b[1;5C", "ctrl-shift-home": "\x1b[1;6H",
		"ctrl-alt-shift-end": "\x1b[1;8F", "shift-f1": "\x1b[1;2P", "ctrl-f5": "\x1b[15;5~", "ctrl-alt-delete": "\x1b[3;7~", "shift-pageup": "\x1b[5;2~",
	} {
		s, ok := keys.Parse(name)
		if got := s.Bytes(keys.Modes{}); !ok || got != want {
			t.Errorf("%s sends %q (%t), want %q", name, got, ok, want)
		}
	}
}

// Only the cursor keys change with the mode, and none of them while a modifier is held.
func TestCursorKeysFollowTheApplicationMode(t *testing.T) {
	application := keys.Modes{ApplicationCursor: true}
	cursor := map[string]string{"up": "\x1bOA", "down": "\x1bOB", "right": "\x1bOC", "left": "\x1bOD", "home": "\x1bOH", "end": "\x1bOF"}
	for _, name := range keys.Names() {
		s, ok := keys.Parse(name)
		want := s.Bytes(keys.Modes{})
		if other, moves := cursor[name]; moves {
			want = other
		}
		if got := s.Bytes(application); !ok || got != want || (keys.Sequence{s}).NeedsModes() != (cursor[name] != "") {
			t.Errorf("%s sends %q (%t), want %q", name, got, ok, want)
		}
		held, ok := keys.Parse("ctrl-" + name)
		if ok && (keys.Sequence{held}).NeedsModes() {
			t.Errorf("ctrl-%s depends on the modes", name)
		}
	}
	if s := keys.Text("\x1b[A"); s.Bytes(application) != "\x1b[A" {
		t.Error("text depends on the modes")
	}
}

func TestWhatNoTerminalSendsIsNoKey(t *testing.T) {
	for _, name := range []string{
		"", "a", "é", "hello", "f0", "f13", "f1x", "ctrl", "ctrl-", "-", "+", "ctrl-foo", "ctrl-é", "ctrl-1", "ctrl--", "ctrl-ctrl-c", "hyper-x",
		"shift-1", "shift-é", "ctrl-shift-c", "ctrl-enter", "shift-enter", "ctrl-tab", "shift-space", "ctrl-esc", "^", "^1", "^é", "^foo", "enter ", "x-up",
	} {
		if s, ok := keys.Parse(name); ok {
			t.Errorf("%q sends %q", name, s.Bytes(keys.Modes{}))
		}
	}
}

func TestPaste(t *testing.T) {
	brackets := keys.Modes{BracketedPaste: true}
	for _, c := range []struct {
		text  string
		modes keys.Modes
		want  string
	}{
		{"a\nb\r\nc\td", keys.Modes{}, "a\rb\rc\td"},
		{"a\nb\r\nc\td", brackets, "\x1b[200~a\rb\rc\td\x1b[201~"},
		{"é中", brackets, "\x1b[200~é中\x1b[201~"},
	} {
		if got, err := keys.Paste(c.text, c.modes); got != c.want || err != nil {
			t.Errorf("%q: %q, %v", c.text, got, err)
		}
	}
	// The end of the brackets, whole, in parts and in one character, and what a terminal acts on.
	for _, text := range []string{"a\x1b[201~rm\n", "a\x1b", "a\u009b201~rm\n", "a\x03", "a\x00", "a\x7f"} {
		for _, modes := range []keys.Modes{{}, brackets} {
			if got, err := keys.Paste(text, modes); !errors.Is(err, keys.ErrPasteControl) {
				t.Errorf("%q: %q, %v", text, got, err)
			}
		}
	}
}
