//go:build unix

package queries

import (
	"bytes"
	"strconv"
)

// A mode is a switch of a terminal.
type mode struct {
	private bool // it is switched by DECSET and DECRST, else by SM and RM
	number  int
}

// A setting is the state of a mode, as DECRQM reports it.
type setting int

const (
	unknown setting = iota // the terminal has no such mode
	set
	reset
)

// defaults are the modes that the terminal has, with their settings at first.
var defaults = map[mode]setting{
	{false, 4}: reset, {false, 20}: reset,
	{true, 1}: reset, {true, 6}: reset, {true, 7}: set, {true, 12}: reset, {true, 25}: set,
	{true, 47}: reset, {true, 1047}: reset, {true, 1049}: reset,
	{true, 1000}: reset, {true, 1002}: reset, {true, 1003}: reset, {true, 1004}: reset, {true, 1006}: reset,
	{true, 2004}: reset,
}

// modes are the settings that the output of a terminal has switched.
type modes map[mode]setting

// setting returns the setting of a mode.
func (ms modes) setting(m mode) setting {
	if s, ok := ms[m]; ok {
		return s
	}
	return defaults[m]
}

// follow follows the switches in b. A sequence that is cut at the end of b switches nothing.
func (ms modes) follow(b []byte) {
	for {
		i := bytes.IndexByte(b, esc)
		if i < 0 || i+1 == len(b) {
			return
		}
		switch b = b[i+1:]; b[0] {
		case 'c': // RIS
			clear(ms)
		case '[':
			ms.control(b[1:])
		}
	}
}

// longestSwitch bounds the parameters of a sequence that switches modes, in bytes.
const longestSwitch = 64

// control follows the control sequence whose parameters b begins with.
func (ms modes) control(b []byte) {
	private := len(b) > 0 && b[0] == '?'
	if private {
		b = b[1:]
	}
	n := 0
	for n < min(len(b), longestSwitch) && (b[n] >= '0' && b[n] <= '9' || b[n] == ';') {
		n++
	}
	if n == len(b) || b[n] != 'h' && b[n] != 'l' {
		return
	}
	to := reset
	if b[n] == 'h' {
		to = set
	}
	for number := range bytes.SplitSeq(b[:n], []byte(";")) {
		if k, err := strconv.Atoi(string(number)); err == nil {
			ms.to(mode{private, k}, to)
		}
	}
}

// to switches a mode, if the terminal has it.
func (ms modes) to(m mode, to setting) {
	switch m {
	case mode{true, 47}, mode{true, 1047}, mode{true, 1049}: // three ways to the alternate screen
		ms[mode{true, 47}], ms[mode{true, 1047}], ms[mode{true, 1049}] = to, to, to
	default:
		if defaults[m] != unknown {
			ms[m] = to
		}
	}
}
