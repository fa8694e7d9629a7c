package escape

import (
	"bytes"
	"maps"
	"strconv"
)

// A Mode is a switch of a terminal.
type Mode struct {
	Private bool // it is switched by DECSET and DECRST, else by SM and RM
	Number  int
}

// The modes that change what a keyboard sends.
var (
	ApplicationCursor = Mode{true, 1}    // DECCKM: the cursor keys have their other form
	BracketedPaste    = Mode{true, 2004} // pasted text comes in brackets
)

// A Setting is the state of a mode, as DECRQM reports it.
type Setting int

const (
	Unknown Setting = iota // the terminal has no such mode
	Set
	Reset
)

// defaults are the modes that the terminal has, with their settings at first.
var defaults = map[Mode]Setting{
	{false, 4}: Reset, {false, 20}: Reset,
	{true, 1}: Reset, {true, 6}: Reset, {true, 7}: Set, {true, 12}: Reset, {true, 25}: Set,
	{true, 47}: Reset, {true, 1047}: Reset, {true, 1049}: Reset,
	{true, 1000}: Reset, {true, 1002}: Reset, {true, 1003}: Reset, {true, 1004}: Reset, {true, 1006}: Reset,
	{true, 2004}: Reset,
}

// Modes follow the modes of a terminal through the output of its programs. The zero Modes describe
// a new terminal.
type Modes struct {
	reader   Reader
	settings map[Mode]Setting // the modes that were switched; the others have their defaults
}

// Setting returns the setting of a mode.
func (ms *Modes) Setting(m Mode) Setting {
	if s, ok := ms.settings[m]; ok {
		return s
	}
	return defaults[m]
}

// Write follows b, the next piece of the output. Pieces can be cut anywhere.
func (ms *Modes) Write(b []byte) { ms.reader.Read(b, ms.follow) }

// Gap notes that output is missing before the next piece. A sequence that it has cut sets nothing.
func (ms *Modes) Gap() { ms.reader = Reader{} }

// follow follows one sequence.
func (ms *Modes) follow(sequence []byte, _ int) {
	last := len(sequence) - 1
	switch final := sequence[last]; {
	case last == 1 && final == 'c': // RIS
		clear(ms.settings)
	case string(sequence) == "\x1b[!p": // DECSTR
		maps.DeleteFunc(ms.settings, func(m Mode, _ Setting) bool { return resetBySoftReset[m] })
	case (final == 'h' || final == 'l') && sequence[1] == '[':
		ms.set(sequence[2:last], final == 'h')
	}
}

// resetBySoftReset are the modes that DECSTR sets as they were at first.
var resetBySoftReset = map[Mode]bool{{false, 4}: true, {true, 1}: true, {true, 6}: true, {true, 25}: true}

// set sets the modes whose numbers are the parameters of a control sequence.
func (ms *Modes) set(params []byte, on bool) {
	params, private := bytes.CutPrefix(params, []byte("?"))
	to := Reset
	if on {
		to = Set
	}
	for number := range bytes.SplitSeq(params, []byte(";")) {
		if n, err := strconv.Atoi(string(number)); err == nil {
			ms.to(Mode{private, n}, to)
		}
	}
}

// to sets a mode, if the terminal has it.
func (ms *Modes) to(m Mode, to Setting) {
	if defaults[m] == Unknown {
		return
	}
	if ms.settings == nil {
		ms.settings = make(map[Mode]Setting)
	}
	switch m {
	case Mode{true, 47}, Mode{true, 1047}, Mode{true, 1049}: // three ways to the alternate screen
		ms.settings[Mode{true, 47}], ms.settings[Mode{true, 1047}], ms.settings[Mode{true, 1049}] = to, to, to
	default:
		ms.settings[m] = to
	}
}
