package jobs

import "context"

// A Stream labels output.
type Stream byte

// The streams of a job.
const (
	Stdout Stream = iota
	Stderr
	TTY
)

func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return "tty"
}

// A Span is output of one stream.
type Span struct {
	Stream Stream
	Data   []byte
}

// A Chunk is a piece of a log without gaps: its spans hold the bytes From to Next.
type Chunk struct {
	Spans   []Span
	From    int64
	Next    int64 // the cursor to read from next
	Dropped int64 // bytes between the cursor asked for and From: they are gone
}

// A Range is the bytes From up to and without To of a log.
type Range struct{ From, To int64 }

// A LogStat says how a log stands.
type LogStat struct {
	End      int64 // bytes ever written
	Final    int64 // End when the job ended, -1 before; later bytes are late output
	Dropped  int64 // bytes that are gone
	Gaps     []Range
	DiskFull bool
}

// A Log is the output of one job.
type Log struct{}

// Write appends b.
func (l *Log) Write(s Stream, b []byte) { panic("skeleton") }

// Read returns at most limit bytes from cursor on.
func (l *Log) Read(cursor int64, limit int) Chunk { panic("skeleton") }

// Stat says how the log stands.
func (l *Log) Stat() LogStat { panic("skeleton") }

// Finish marks the end of the job; what is written later is late output.
func (l *Log) Finish() { panic("skeleton") }

// Wait blocks until there is something to read at cursor, the log is finished,
// or ctx is done.
func (l *Log) Wait(ctx context.Context, cursor int64) error { panic("skeleton") }

// Close forgets what the log holds.
func (l *Log) Close() { panic("skeleton") }
