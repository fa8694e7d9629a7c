package search

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

const (
	// maxTable is how many entries of four bytes the table of a filter has, and maxSets how many
	// instructions its sets have. When either is full, it begins again.
	maxTable = 1 << 20
	maxSets  = 1 << 18
	// maxResets is after how many times it stops, because the states of the expression are too many.
	maxResets = 16

	unknown int32 = -1 // the state has not been made yet
	accept  int32 = -2 // the line can match
	dead    int32 = -3 // the line can't match
)

// A filter finds lines that can match an expression, ten times as fast as package regexp does. It
// is an automaton with one state at a time, and makes each state when it is first needed, as in
// https://swtch.com/~rsc/regexp/regexp1.html. It takes $ and \b for true everywhere, so the
// expression must check what it finds. It belongs to one search.
type filter struct {
	prog    *syntax.Prog
	bounds  []rune     // the first character of each class; no instruction divides a class
	ascii   [128]int32 // the class of each ASCII character
	table   []int32    // the index in table of the next state, by state and class
	sets    [][]uint32 // the instructions of each state
	size    int        // the number of instructions in all sets, plus one for each set
	states  map[string]int32
	pending []uint32 // the instructions of the set being made
	inSet   []bool   // whether an instruction is in pending
	key     []byte
	resets  int
}

// newFilter returns a filter for an expression. It is nil if every line can match.
func newFilter(tree *syntax.Regexp) *filter {
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil // the expression itself was compiled: its lines are just not filtered
	}
	f := &filter{prog: prog, inSet: make([]bool, len(prog.Inst))}
	f.bounds = []rune{0, '\n', '\n' + 1}
	for i := range prog.Inst {
		f.divide(&prog.Inst[i])
	}
	slices.Sort(f.bounds)
	f.bounds = slices.Compact(f.bounds)
	for c := range f.ascii {
		f.ascii[c] = f.class(rune(c))
	}
	if f.reset(); f.table == nil {
		return nil
	}
	return f
}

// divide adds the bounds of the characters that an instruction accepts.
func (f *filter) divide(in *syntax.Inst) {
	if in.Op != syntax.InstRune && in.Op != syntax.InstRune1 {
		return
	}
	if len(in.Rune) != 1 {
		for i := 0; i+1 < len(in.Rune); i += 2 {
			f.bounds = append(f.bounds, in.Rune[i], in.Rune[i+1]+1)
		}
		return
	}
	first := in.Rune[0]
	f.bounds = append(f.bounds, first, first+1)
	if syntax.Flags(in.Arg)&syntax.FoldCase != 0 {
		for c := unicode.SimpleFold(first); c != first; c = unicode.SimpleFold(c) {
			f.bounds = append(f.bounds, c, c+1)
		}
	}
}

// class returns the class of a character.
func (f *filter) class(c rune) int32 {
	i, found := slices.BinarySearchFunc(f.bounds, c, cmp.Compare[rune])
	if !found {
		i--
	}
	return int32(i)
}

// reset makes the table with only the state at the start of a line. If that state accepts, every
// line can match, and the table is nil.
func (f *filter) reset() {
	f.table, f.sets, f.size, f.states = f.table[:0], nil, 0, map[string]int32{}
	if f.add(uint32(f.prog.Start), true) {
		f.table = nil
		return
	}
	f.state()
}

// add adds an instruction to the pending set, with the instructions that follow it without reading
// a character. start says that this is the start of a line. add reports whether the expression has
// matched.
func (f *filter) add(pc uint32, start bool) bool {
	if f.inSet[pc] {
		return false
	}
	f.inSet[pc] = true
	f.pending = append(f.pending, pc)
	switch in := &f.prog.Inst[pc]; in.Op {
	case syntax.InstMatch:
		return true
	case syntax.InstAlt, syntax.InstAltMatch:
		first := f.add(in.Out, start)
		return f.add(in.Arg, start) || first
	case syntax.InstEmptyWidth:
		if syntax.EmptyOp(in.Arg)&(syntax.EmptyBeginLine|syntax.EmptyBeginText) != 0 && !start {
			return false
		}
		return f.add(in.Out, start)
	case syntax.InstCapture, syntax.InstNop:
		return f.add(in.Out, start)
	}
	return false
}

// state returns the state of the pending set, and makes it if it is new.
func (f *filter) state() int32 {
	set := slices.DeleteFunc(f.pending, func(pc uint32) bool {
		f.inSet[pc] = false
		op := f.prog.Inst[pc].Op
		return op < syntax.InstRune // the others take no character
	})
	slices.Sort(set)
	f.key = f.key[:0]
	for _, pc := range set {
		f.key = binary.NativeEndian.AppendUint32(f.key, pc)
	}
	at, known := f.states[string(f.key)]
	switch start := len(f.table) == 0; {
	case known:
	case len(set) == 0 && !start:
		at = dead
	default:
		at = int32(len(f.table))
		f.states[string(f.key)] = at
		f.sets = append(f.sets, slices.Clone(set))
		f.size += len(set) + 1
		for range f.bounds {
			f.table = append(f.table, unknown)
		}
		f.table[at+f.ascii['\n']] = 0
	}
	f.pending = f.pending[:0]
	return at
}

// step returns the state after a character of a class, or accept.
func (f *filter) step(state, class int32) int32 {
	matched := false
	for _, pc := range f.sets[int(state)/len(f.bounds)] {
		if in := &f.prog.Inst[pc]; in.MatchRune(f.bounds[class]) {
			matched = f.add(in.Out, false) || matched
		}
	}
	matched = f.add(uint32(f.prog.Start), false) || matched // a match can begin anywhere
	if matched {
		f.unmark()
		f.table[state+class] = accept
		return accept
	}
	if len(f.table)+len(f.bounds) > maxTable || f.size > maxSets {
		set := slices.Clone(f.pending)
		f.unmark()
		f.resets++
		f.reset()
		for _, pc := range set {
			f.inSet[pc] = true
		}
		f.pending = append(f.pending, set...)
		return f.state()
	}
	next := f.state()
	f.table[state+class] = next
	return next
}

// unmark empties the pending set.
func (f *filter) unmark() {
	for _, pc := range f.pending {
		f.inSet[pc] = false
	}
	f.pending = f.pending[:0]
}

// candidate returns the offset of a byte of the first line of text that can match, or -1. The text
// begins at the start of a line.
func (f *filter) candidate(text []byte) int {
	if f.resets > maxResets {
		return 0
	}
	state := int32(0)
	for i := 0; i < len(text); {
		n, class := 1, int32(0)
		if c := text[i]; c < utf8.RuneSelf {
			class = f.ascii[c]
		} else {
			var r rune
			r, n = utf8.DecodeRune(text[i:])
			class = f.class(r)
		}
		next := f.table[state+class]
		if next == unknown {
			next = f.step(state, class)
		}
		switch next {
		case accept:
			return i
		case dead:
			end := bytes.IndexByte(text[i:], '\n')
			if end < 0 {
				return -1
			}
			n, next = end+1, 0
		}
		state = next
		i += n
	}
	return -1
}
