package pystack

// A layout says where the structures of one version of the interpreter hold what a look needs. The
// numbers are offsets in bytes from the start of a structure, unless they say otherwise.
type layout struct {
	minor int

	// In the runtime, _PyRuntimeState:
	interpreters int // the newest interpreter
	mainThread   int // the id of the main thread; 0: this version knows threads by their native ids

	// In an interpreter, PyInterpreterState:
	nextInterp int // the next older interpreter
	interpID   int // the interpreter's number
	threads    int // the newest thread

	// In a thread, PyThreadState:
	nextThread  int  // the next older thread
	threadID    int  // the thread's id
	threadFrame int  // the innermost frame, or the C frame that has it
	hasCFrame   bool // threadFrame is a C frame, as in 3.11 and 3.12
	inCFrame    int  // the frame, from the start of the C frame

	// In a frame, a _PyInterpreterFrame from 3.11 on and a PyFrameObject before:
	previous  int // the frame that called it
	frameCode int // the code object that it runs
	at        int // the instruction that it is at; before 3.11 the number of that
	locals    int // the first of its variables
	owner     int // a byte that says whether it belongs to C code; 0: no frame of this version does
	entry     int // a byte that says whether C code called it; 0: this version has none
	state     int // a byte that says whether it is at work
	stack     int // the stack of values: method top says how each version has stack and depth
	depth     int // the number of values
	frameSize int // no offset: the number of bytes of a frame that a look reads

	// In a code object, PyCodeObject:
	filename     int // co_filename
	name         int // co_name
	firstLine    int // co_firstlineno
	lines        int // co_lnotab in 3.9, co_linetable later
	instructions int // the first instruction; 0: a separate object holds the instructions

	// In a generator or coroutine, PyGenObject:
	genFrame int  // the frame, or before 3.11 the address of the frame
	genState int  // a byte for its state; 0: this version has only the state of the frame
	waiting  int8 // no offset: the state of one that waits at an await
	under    int  // no offset: what it awaits is so many bytes under the top of its stack of values

	// In objects of several types:
	typeAt   int // the type of any object
	sizeAt   int // the size of an object of variable size
	bytesAt  int // the data of a bytes
	lengthAt int // the length of a str
	stateAt  int // the state of a str
	kindBit  int // no offset: the bit of the state where the kind of characters begins
	ascii    int // the characters of a str that is ASCII
	compact  int // the characters of any other str
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
