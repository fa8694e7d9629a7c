package output

import "sync"

// A TestLog is a log whose disk a test plays.
type TestLog struct{ *segmentLog }

// NewTestLog returns a log of that many segments of size bytes on a disk that open opens, of which
// it keeps maxHeld in memory if the disk refuses them. If open is nil, it keeps all in memory.
func NewTestLog(size int, segments int64, maxHeld int, open func() (RawFile, error)) TestLog {
	s := &store{shape: newShape(segments), size: size}
	if open == nil {
		return TestLog{s.NewLog("").(*segmentLog)}
	}
	s.file = &slotFile{open: open, size: int64(size)}
	return TestLog{newLog(size, s.shape, maxHeld, s.file.newLog(s.shape), new(sync.Pool))}
}

// RawFile is the file of a log's disk.
type RawFile = rawFile

// Flushed waits until the log has written to disk what it could.
func (l TestLog) Flushed() { flushed(l.segmentLog) }

// Held returns how many sealed segments are in memory, and how many there can be.
func (l TestLog) Held() (n, most int) { return len(l.sealed.held), l.sealed.maxHeld }

// CapGap returns the gap that the cap alone makes in a log of end bytes, if there is one.
func (l TestLog) CapGap(end int64) []Range {
	size := int64(l.size)
	if to := max(0, end-1)/size - l.sealed.shape.ring; to > l.sealed.shape.head {
		return []Range{{l.sealed.shape.head * size, to * size}}
	}
	return nil
}

// Newest returns where the newest sealed segment of a log of end bytes begins.
func (l TestLog) Newest(end int64) int64 {
	size := int64(l.size)
	return max(0, (max(0, end-1)/size-1)*size)
}
