package stream

import (
	"fmt"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
)

// A Position is what a reader has of a life: the output before Cursor, and the displays up to number Displays.
type Position struct {
	Cursor   int64
	Displays int
	// Quick is how long the first write waits for the end of the job, so that a quick job is one write. The way can
	// hold a second small write back: srun(1) does for 40 ms.
	Quick time.Duration
}

// A Skip says that the output from the present cursor up to To was dropped by the engine that runs the job. Why
// counts these bytes by cause. It counts fewer if the cause of some is unknown.
type Skip struct {
	To  int64       `json:"to"`
	Why output.Loss `json:"why,omitzero"`
}

// A Frame is one event of a life: output, a skip, a display or a record.
type Frame struct {
	Data   []byte // output; valid until the next call of Next
	Stream output.Stream

	Skip *Skip

	Display *jobs.Display
	Forms   [][]byte // the bytes of the display's forms; nil for a form that the engine there has lost

	Record *jobs.Record
	Now    time.Time // the time at the place when Record was taken
	Behind int64     // bytes of output that Record counts and that are still to come; if 0, a final Record is the end
}

// The types of frames.
const (
	outputFrame  = 'o' // the stream (1 byte), the cursor (8 bytes) and the output
	skipFrame    = 's' // the JSON of a Skip
	displayFrame = 'd' // the JSON of a displayHead; the bytes of the forms follow the frame
	recordFrame  = 'r' // the JSON of a recordBody
	aliveFrame   = 'a' // empty: nothing has changed for aliveTime
	endFrame     = 'e' // empty: the life is complete
)

const (
	headSize   = 1 + 4 // a frame begins with its type and the length of its body
	outputHead = 1 + 8 // the body of an outputFrame begins with a stream and a cursor
)

// A displayHead is the part of a display that is JSON. Sizes are the lengths of its forms, or -1 for a form that
// is lost.
type displayHead struct {
	Display jobs.Display `json:"display"`
	Sizes   []int        `json:"sizes"`
}

type recordBody struct {
	Now    time.Time   `json:"now"`
	Record jobs.Record `json:"record"`
}

// ended reports whether a status is that of an ended job. It is empty before the first record.
func ended(s jobs.Status) bool { return s != "" && s.Final() }

// An Error means that the other engine has sent what can't be true.
type Error struct{ text string }

func (e *Error) Error() string { return "the engine at the place " + e.text }

func lie(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }
