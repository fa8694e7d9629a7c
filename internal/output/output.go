// Package output is an append-only log of bytes that is read by cursor: the output of a program,
// labelled by stream and in order of arrival.
//
// The rules that readers and writers rely on:
//
//   - A cursor is a count of bytes ever written. It stays valid when old bytes are dropped.
//   - Reading drains nothing, and writing never waits for a reader. If the disk is slow, writing
//     waits for the disk, and readers still don't wait.
//   - A write never fails. Only a limit or a failing disk drops bytes, and [Stat] counts them
//     exactly, by cause.
//   - [Log.Finish] marks the end. It returns once it is known whether the disk took all that came
//     before. Bytes that are written later are late output in the same log.
//
// A [Store] makes the logs of one server and bounds them together. The log named ID has its files
// in a directory ID: output.log, whose offset is the cursor; output.streams, with a record for each
// change of stream, which is written before the bytes that it labels; and a file display-N for each
// attachment. They outlive a killed server, and [OpenPast] reads them. Up to 4 KiB stay in memory
// until [Log.Flush] or more bytes come; from then on each write reaches the file. Of one log the
// first and the last half of [Config].Cap are kept: the middle is punched out. What the disk
// refuses stays in memory: 1 MiB of each log until it can be written or more comes, and 64 MiB of all
// attachments, of which the logs that were finished first lose theirs. At most 64 files are open.
//
// [Log] is the only way to a log, so that another implementation can take its place: package
// outputtest checks one.
//
// Sizes and cursors are numbers of bytes. The error to act on is [ErrLimit], in [Usage].
//
// Begin with [Log], then log.go for what is in memory, write.go and read.go for the files, index.go
// for the labels, and past.go for the files of an earlier run. The package knows neither jobs nor
// processes.
package output

import (
	"context"
	"errors"
	"time"
)

// ErrLimit means that the logs of a store have reached [Config].Disk on disk, and that no finished
// log has bytes there that could be dropped.
var ErrLimit = errors.New("the limit of all output on disk is reached")

// A Stream labels output.
type Stream byte

// The streams.
const (
	Stdout Stream = iota
	Stderr
	TTY
	Result  // the value of a job's last expression
	Display // a line that stands for data beside the log, see [Log.Attach]
)

// String returns the name of the stream.
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	case Result:
		return "result"
	case Display:
		return "display"
	}
	return "tty"
}

// Streams is a set of streams.
type Streams byte

// Has reports whether s is in the set.
func (ss Streams) Has(s Stream) bool { return ss&(1<<s) != 0 }

// With returns the set with s in it.
func (ss Streams) With(s Stream) Streams { return ss | 1<<s }

// A Span is output of one stream.
type Span struct {
	Stream Stream
	Data   []byte
}

// A Chunk is a piece of a log without gaps: its spans hold the bytes From to Next. Neighbouring
// spans are of different streams.
type Chunk struct {
	Spans   []Span
	From    int64
	Next    int64 // the cursor to read from next
	Dropped int64 // bytes between the cursor asked for and From, which are gone
}

// A Range is the bytes of a log from From up to, but not including, To.
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// A Stat is the state of a log.
type Stat struct {
	End     int64     `json:"cursor"`              // bytes ever written
	Final   int64     `json:"final"`               // End at Finish, -1 before; then output is late
	Dropped int64     `json:"dropped,omitempty"`   // bytes that are gone
	Gaps    []Range   `json:"gaps,omitempty"`      // the places of these bytes
	Loss    Loss      `json:"dropped_by,omitzero"` // Dropped by cause, without what Discard dropped
	Last    time.Time `json:"last,omitzero"`       // the time of the last write; zero: none
}

// A Loss counts the bytes of a log that are gone, by cause.
type Loss struct {
	Cap   int64 `json:"max_output,omitempty"` // the limit of one log
	Disk  int64 `json:"disk,omitempty"`       // a disk that could not be written to or read
	Limit int64 `json:"max_state,omitempty"`  // the limit of all logs on disk
}

// A Reader is the reading side of a [Log]. Its methods can be called at any time, by several
// goroutines at once.
type Reader interface {
	// Read returns at most limit bytes from cursor on, without waiting. It moves a cursor in a gap
	// up to the end of the gap, and a cursor beyond the end of the log back to the end. A chunk
	// ends where a gap begins.
	Read(cursor int64, limit int) Chunk
	// ReadInto is Read of at most len(b) bytes into b, for readers of much. The chunk refers to b.
	ReadInto(cursor int64, b []byte) Chunk
	// Wait blocks until there is something to read at cursor, the log is finished or discarded, or
	// ctx is done. In the last case it returns the cause of ctx.
	Wait(ctx context.Context, cursor int64) error
	// More is Wait for callers that wait for other events, too: it returns a closed channel if Wait
	// would return, and else one that is closed at the next change.
	More(cursor int64) <-chan struct{}
	// Stat returns the state of the log.
	Stat() Stat
	// Before returns a cursor before which all bytes were written by t. Those that were written in the
	// second before t can be missing; for a t that is longer ago than [Recent], all can be.
	Before(t time.Time) int64
	// Attachment returns the attachment of that number, which the caller must not change. The error
	// is [ErrLimit] if it was not kept, or was dropped, because of the limit of all logs on disk.
	Attachment(n int) ([]byte, error)
	// Streams returns the streams of the bytes from..to, gone or not. For bytes that are gone it
	// may return the streams of all bytes that are gone, and every stream for bytes whose labels can't
	// be read. The time it takes must not grow with the range.
	Streams(from, to int64) Streams
}

// A Log is the output of one program.
type Log interface {
	Reader
	// Write appends a copy of b and returns the cursor of its first byte. It never fails: bytes that
	// can't be kept are counted in [Stat].
	Write(s Stream, b []byte) (at int64)
	// Skip appends bytes up to cursor to that were dropped before they came here. They count as written
	// and as dropped: for the causes in why, as far as those amount to no more than them. It takes no
	// longer for more bytes. It does nothing if to is not beyond the end of the log.
	Skip(to int64, why Loss)
	// Attach keeps b beside the log, in one piece, and returns its number: 0, 1, 2, …. The caller must
	// not change b any more. It never fails: [Reader.Attachment] says why b could not be kept.
	Attach(b []byte) int
	// Detach drops the attachment of that number, so that its place is free for others. To detach it
	// twice does nothing more.
	Detach(n int)
	// Finish marks the end; bytes that are written later are late output. When it returns, it is
	// known whether the disk took all earlier bytes. A second Finish does nothing.
	Finish()
	// Flush returns when all that was written before is in the file of the log, so that it outlives
	// the process, or the disk has refused it, see [Usage].
	Flush()
	// Short returns the output of a finished log that is so short that no file was made for it, and
	// reports whether it is. The owner of the log's records keeps it there.
	Short() ([]Span, bool)
	// Discard drops all bytes and attachments, removes their files, and ignores later writes. The
	// dropped bytes become a gap.
	Discard()
}

// A Store makes logs.
type Store interface {
	// NewLog returns a new log; id is its name in the store.
	NewLog(id string) Log
	// Usage returns the space that the logs take on disk.
	Usage() Usage
}

// A Usage is the space that the logs of a store take on disk.
type Usage struct {
	Dir   string // the directory of the files; empty before anything was written
	Bytes int64
	Limit int64 // Bytes never exceeds it; 0: no limit

	// Failure is the error of the last write, for example [syscall.ENOSPC] from a full disk. It is
	// [ErrLimit] only while no log can make room. Nil if the write succeeded.
	Failure error
}

// Recent is how long a log remembers when bytes came, see [Reader.Before]. A log that remembered
// all times would grow with a program that prints slowly for days.
const Recent = 10 * time.Second

// Tail returns at most n of the newest bytes.
func Tail(r Reader, n int) []byte {
	end := r.Stat().End
	for cursor := end - int64(n); ; {
		c := r.Read(cursor, n)
		if c.Next < end {
			cursor = c.Next // a gap follows, or more has been written
			continue
		}
		var b []byte
		for _, s := range c.Spans {
			b = append(b, s.Data...)
		}
		return b
	}
}
