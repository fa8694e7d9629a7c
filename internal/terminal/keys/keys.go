package keys

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Key is what one key, a chord or a piece of text sends.
type Key struct {
	normal, application string
}

// Text returns the key that types s as it is.
func Text(s string) Key { return Key{s, s} }

// Bytes returns what k sends in these modes.
func (k Key) Bytes(m Modes) string {
	if m.ApplicationCursor {
		return k.application
	}
	return k.normal
}

// A Sequence is keys that are pressed one at a time.
type Sequence []Key

// NeedsModes reports whether the bytes of s depend on the modes of the terminal.
func (s Sequence) NeedsModes() bool {
	return slices.ContainsFunc(s, func(k Key) bool { return k.normal != k.application })
}

// Bytes returns what each key of s sends in these modes.
func (s Sequence) Bytes(m Modes) []string {
	sent := make([]string, len(s))
	for i, k := range s {
		sent[i] = k.Bytes(m)
	}
	return sent
}

// A key is one key with a name. It sends a control character (plain), or else a control sequence: one
// that ends in a letter, or in a number and a tilde.
type key struct {
	name   string
	plain  string
	letter byte
	cursor bool // SS3 precedes the letter in application mode, CSI otherwise
	number int
}

// all holds the keys in the order in which they are listed to a caller.
var all = []key{
	{name: "enter", plain: "\r"}, {name: "tab", plain: "\t"}, {name: "esc", plain: esc}, {name: "space", plain: " "},
	{name: "backspace", plain: "\x7f"}, {name: "delete", number: 3}, {name: "insert", number: 2},
	{name: "up", letter: 'A', cursor: true}, {name: "down", letter: 'B', cursor: true},
	{name: "left", letter: 'D', cursor: true}, {name: "right", letter: 'C', cursor: true},
	{name: "home", letter: 'H', cursor: true}, {name: "end", letter: 'F', cursor: true},
	{name: "pageup", number: 5}, {name: "pagedown", number: 6},
	{name: "f1", letter: 'P'}, {name: "f2", letter: 'Q'}, {name: "f3", letter: 'R'}, {name: "f4", letter: 'S'},
	{name: "f5", number: 15}, {name: "f6", number: 17}, {name: "f7", number: 18}, {name: "f8", number: 19},
	{name: "f9", number: 20}, {name: "f10", number: 21}, {name: "f11", number: 23}, {name: "f12", number: 24},
}

// others are other usual names of keys.
var others = map[string]string{
	"return": "enter", "escape": "esc", "del": "delete", "ins": "insert", "pgup": "pageup", "pgdn": "pagedown",
}

// Names returns the names of the keys, without chords.
func Names() []string {
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.name
	}
	return names
}

const (
	esc = "\x1b"
	csi = esc + "["
	ss3 = esc + "O"
)

// Modifiers of a key, as control sequences count them.
const (
	shift = 1 << iota
	alt
	ctrl
)

// modifiers are the spellings of the modifiers before - or +.
var modifiers = map[string]int{
	"shift": shift, "s": shift, "alt": alt, "meta": alt, "m": alt, "ctrl": ctrl, "control": ctrl, "c": ctrl,
}

// Parse returns what the key or chord of that name sends. Capital and small letters are the same,
// except in a letter that alt goes with. It reports false if there is no such key, or if a terminal
// has no bytes for the chord.
func Parse(name string) (Key, bool) {
	if len(name) == 2 && name[0] == '^' {
		return chord(name[1:], ctrl)
	}
	held := 0
	for {
		i := strings.IndexAny(name, "-+")
		if i < 0 || i == len(name)-1 {
			break
		}
		m := modifiers[strings.ToLower(name[:i])]
		if m == 0 || held&m != 0 {
			return Key{}, false
		}
		held |= m
		name = name[i+1:]
	}
	if utf8.RuneCountInString(name) == 1 {
		return chord(name, held)
	}
	name = strings.ToLower(name)
	if other := others[name]; other != "" {
		name = other
	}
	i := slices.IndexFunc(all, func(k key) bool { return k.name == name })
	if i < 0 {
		return Key{}, false
	}
	return all[i].with(held)
}

// chord returns what a character sends while modifiers are held. A character alone is no chord.
func chord(char string, held int) (Key, bool) {
	switch {
	case held == 0:
		return Key{}, false
	case held&ctrl != 0:
		c, ok := control(char)
		if !ok || held&shift != 0 {
			return Key{}, false
		}
		char = string(c)
	case held&shift != 0:
		// Keyboards differ in what shift makes of any other character.
		if c := char[0]; c|' ' < 'a' || c|' ' > 'z' || len(char) > 1 {
			return Key{}, false
		}
		char = strings.ToUpper(char)
	}
	if held&alt != 0 {
		char = esc + char
	}
	return Text(char), true
}

// control returns the character that ctrl makes of one.
func control(char string) (byte, bool) {
	switch c := char[0]; {
	case len(char) > 1:
		return 0, false
	case c >= '@' && c <= '_', c >= 'a' && c <= 'z':
		return c & 0x1f, true
	case c == '?':
		return 0x7f, true
	case c == '/':
		return 0x1f, true
	}
	return 0, false
}

// with returns what k sends while modifiers are held.
func (k key) with(held int) (Key, bool) {
	modifier := ";" + strconv.Itoa(1+held)
	switch {
	case k.plain != "":
		return k.plainWith(held)
	case k.number > 0 && held == 0:
		return Text(csi + strconv.Itoa(k.number) + "~"), true
	case k.number > 0:
		return Text(csi + strconv.Itoa(k.number) + modifier + "~"), true
	case held > 0:
		return Text(csi + "1" + modifier + string(k.letter)), true
	case k.cursor:
		return Key{csi + string(k.letter), ss3 + string(k.letter)}, true
	}
	return Text(ss3 + string(k.letter)), true
}

// plainWith is with for a key that sends a control character. Only some have another one.
func (k key) plainWith(held int) (Key, bool) {
	s := k.plain
	switch {
	case held&^alt == 0:
	case k.name == "tab" && held&^alt == shift:
		s = csi + "Z"
	case k.name == "space" && held&^alt == ctrl:
		s = "\x00"
	case k.name == "backspace" && held&^alt == ctrl:
		s = "\b"
	default:
		return Key{}, false
	}
	if held&alt != 0 {
		s = esc + s
	}
	return Text(s), true
}
