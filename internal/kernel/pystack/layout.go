package pystack

// A layout says where the structures of one version of the interpreter hold what a look needs. The
// numbers are offsets in bytes from the start of a structure, unless they say otherwise.
type layout struct {
	minor int

	// In the runtime: the newest interpreter, and the thread that is the main one. In a version
	// with mainThread 0, threads are known by their native ids.
	interpreters, mainThread int

	// In an interpreter: the next older one, its number, and its newest thread.
	nextInterp, interpID, threads int

	// In a thread: the next older one, its id, and its innermost frame. In 3.11 and 3.12 it has a C
	// frame, and that has the frame at inCFrame.
	nextThread, threadID, threadFrame int
	hasCFrame                         bool
	inCFrame                          int

	// In a frame, a _PyInterpreterFrame from 3.11 on and a PyFrameObject before:
	previous  int // the frame that called it
	frameCode int // its code object
	at        int // the instruction that it is at; before 3.11 the number of that
	locals    int // its variables
	owner     int // whether it belongs to C code; 0: no frame of this version does
	entry     int // whether C code called it
	state     int // whether it is at work
	stack     int // with depth: how far its stack of values reaches, see top
	depth     int
	frameSize int // how many bytes of it a look reads

	// In a code object. Its instructions begin at instructions; 0: they are an object of their own.
	filename, name, firstLine, lines, instructions int

	// In a generator or coroutine: its frame, and its state. 3.10 has only the frame's. If the state
	// is waiting, it waits at an await. What it awaits is then so many bytes under the top of its
	// stack of values.
	genFrame, genState int
	waiting            int8
	under              int

	// In an object its type, in an object of variable size its size, in bytes its data. In a str
	// its length, its state, in the state the bit where the kind begins, and the sizes of what is
	// in front of ASCII and of other characters.
	typeAt, sizeAt, bytesAt, lengthAt, stateAt, kindBit, ascii, compact int
}

// layouts are the layouts of the versions that do not say theirs. A C program that includes the
// headers of a version printed them. They are the same on all 64-bit systems, and they do not
// change within a minor version.
var layouts = map[int]layout{
	9: {
		minor: 9, interpreters: 32, mainThread: 72,
		nextInterp: 0, interpID: 24, threads: 8,
		nextThread: 8, threadID: 176, threadFrame: 24,
		previous: 24, frameCode: 32, at: 104, locals: 360, stack: 72, state: 116, frameSize: 120,
		filename: 104, name: 112, firstLine: 40, lines: 120,
		genFrame: 16, genState: 24, under: 8,
		typeAt: 8, sizeAt: 16, bytesAt: 32, lengthAt: 16, stateAt: 32, kindBit: 2, ascii: 48, compact: 72,
	},
	10: {
		minor: 10, interpreters: 32, mainThread: 72,
		nextInterp: 0, interpID: 24, threads: 8,
		nextThread: 8, threadID: 176, threadFrame: 24,
		previous: 24, frameCode: 32, at: 96, locals: 352, stack: 64, depth: 80, state: 108, frameSize: 112,
		filename: 104, name: 112, firstLine: 40, lines: 120,
		genFrame: 16, waiting: -1, under: 8,
		typeAt: 8, sizeAt: 16, bytesAt: 32, lengthAt: 16, stateAt: 32, kindBit: 2, ascii: 48, compact: 72,
	},
	11: {
		minor: 11, interpreters: 40,
		nextInterp: 0, interpID: 48, threads: 16,
		nextThread: 8, threadID: 160, threadFrame: 56, hasCFrame: true, inCFrame: 8,
		previous: 48, frameCode: 32, at: 56, owner: 69, entry: 68, locals: 72, depth: 64, frameSize: 72,
		filename: 112, name: 120, firstLine: 72, lines: 136, instructions: 184,
		genFrame: 80, genState: 75, waiting: -1, under: 8,
		typeAt: 8, sizeAt: 16, bytesAt: 32, lengthAt: 16, stateAt: 32, kindBit: 2, ascii: 48, compact: 72,
	},
	12: {
		minor: 12, interpreters: 40,
		nextInterp: 0, interpID: 8, threads: 72,
		nextThread: 8, threadID: 144, threadFrame: 56, hasCFrame: true, inCFrame: 0,
		previous: 8, frameCode: 0, at: 56, owner: 70, locals: 72, depth: 64, frameSize: 72,
		filename: 112, name: 120, firstLine: 68, lines: 136, instructions: 192,
		genFrame: 72, genState: 67, waiting: -1, under: 8,
		typeAt: 8, sizeAt: 16, bytesAt: 32, lengthAt: 16, stateAt: 32, kindBit: 2, ascii: 40, compact: 56,
	},
}
