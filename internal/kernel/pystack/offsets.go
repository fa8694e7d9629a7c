package pystack

import (
	"errors"
	"fmt"
)

// cookie begins the runtime of 3.13 and newer, and of no older version.
const cookie = "xdebugpy"

// words says which word of _Py_DebugOffsets has which offset. Each version lists them in its header
// pycore_debug_offsets.h, or pycore_runtime.h in 3.13: see https://peps.python.org/pep-0768/.
type words struct {
	count int // number of the words up to the last one that a look needs

	interpreters, interpID, nextInterp, threads int
	nextThread, threadFrame, native             int
	previous, frameCode, at, locals, owner      int
	filename, name, lines, firstLine, instrs    int
	headSize, typeAt, sizeAt, bytesAt           int
	stateAt, lengthAt, ascii                    int
	stack, genFrame, genState                   int // 0: this version does not say

	waiting int8 // see layout; no word says it
	under   int
}

var wordsOf = map[int]words{
	13: {
		count: 71, interpreters: 5, interpID: 7, nextInterp: 8, threads: 9,
		nextThread: 21, threadFrame: 23, native: 25,
		previous: 29, frameCode: 30, at: 31, locals: 32, owner: 33,
		filename: 35, name: 36, lines: 38, firstLine: 39, instrs: 43,
		headSize: 44, typeAt: 45, sizeAt: 65, bytesAt: 66, stateAt: 68, lengthAt: 69, ascii: 70,
		waiting: -1, under: 8,
	},
	14: {
		count: 87, interpreters: 5, interpID: 7, nextInterp: 8, threads: 9,
		nextThread: 24, threadFrame: 26, native: 28,
		previous: 32, frameCode: 33, at: 34, locals: 35, owner: 36, stack: 37,
		filename: 40, name: 41, lines: 43, firstLine: 44, instrs: 48,
		typeAt: 51, sizeAt: 75, bytesAt: 76, stateAt: 78, lengthAt: 79, ascii: 80,
		genFrame: 85, genState: 86, waiting: -1, under: 8,
	},
	15: {
		count: 103, interpreters: 5, interpID: 7, nextInterp: 8, threads: 9,
		nextThread: 24, threadFrame: 26, native: 31,
		previous: 40, frameCode: 41, at: 42, locals: 43, owner: 44, stack: 45,
		filename: 48, name: 49, lines: 51, firstLine: 52, instrs: 56,
		typeAt: 59, sizeAt: 87, bytesAt: 88, stateAt: 90, lengthAt: 91, ascii: 92,
		genFrame: 101, genState: 102, waiting: 2, under: 16,
	},
}

// What an offset can be. A larger one is a defect, or comes from a hostile program.
const (
	farMax  = 1 << 20 // bounds offsets in the runtime and in an interpreter
	nearMax = 2048    // bounds all other offsets
)

// readLayout returns the layout of the interpreter whose runtime is at an address, if it is of the
// minor version that the program has said.
func readLayout(v *view, runtime uint64, minor int) (layout, error) {
	if l, ok := layouts[minor]; ok {
		return l, nil
	}
	at, ok := wordsOf[minor]
	if !ok {
		return layout{}, fmt.Errorf("the frames of Python 3.%d are not known", minor)
	}
	b := v.bytes(runtime, at.count*8)
	switch {
	case b == nil:
		return layout{}, v.failed()
	case string(b[:8]) != cookie:
		return layout{}, errors.New("the interpreter does not say where its frames are")
	case wordAt(b, 8)>>16 != uint64(3<<8|minor):
		return layout{}, errors.New("the interpreter says that it is another version")
	}
	bad := false
	get := func(n, limit int) int {
		w := wordAt(b, n*8)
		if w > uint64(limit) {
			bad = true
			return 0
		}
		return int(w)
	}
	far := func(n int) int { return get(n, farMax) }
	near := func(n int) int { return get(n, nearMax) }
	l := layout{
		minor: minor, interpreters: far(at.interpreters),
		nextInterp: far(at.nextInterp), interpID: far(at.interpID), threads: far(at.threads),
		nextThread: near(at.nextThread), threadID: near(at.native), threadFrame: near(at.threadFrame),
		previous: near(at.previous), frameCode: near(at.frameCode), at: near(at.at), owner: near(at.owner), locals: near(at.locals),
		filename: near(at.filename), name: near(at.name), firstLine: near(at.firstLine), lines: near(at.lines), instructions: near(at.instrs),
		typeAt: near(at.typeAt), sizeAt: near(at.sizeAt), bytesAt: near(at.bytesAt),
		lengthAt: near(at.lengthAt), stateAt: near(at.stateAt), ascii: near(at.ascii), kindBit: 2,
		waiting: at.waiting, under: at.under,
	}
	l.compact = l.ascii + 16
	// In a free-threaded build the byte in front of the kind changes on its own.
	if wordAt(b, 16) != 0 && minor >= 14 {
		l.kindBit = 8
	}
	if at.stack != 0 {
		l.stack, l.genFrame, l.genState = near(at.stack), near(at.genFrame), near(at.genState)
	} else {
		head := near(at.headSize)
		l.depth, l.genFrame, l.genState = l.at+8, head+56, head+51
	}
	l.frameSize = max(l.at, l.stack, l.owner, l.previous, l.frameCode) + 8
	if bad || l.owner == 0 || l.instructions == 0 {
		return layout{}, errors.New("the interpreter says that its frames are where they can't be")
	}
	return l, nil
}
