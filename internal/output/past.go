package output

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"sort"
	"sync"
)

// OpenPast returns the log of a run that has ended. No process writes it any more: Write is ignored.
// open opens a file in the directory of the log for reading, and only if it is a regular one. stat is
// the log's last known state. If stat.Final is below 0 the run was killed, and the files say how much
// there is. short is what [Log.Short] returned, nil if there is a file. No file is opened until the log
// is read, and none stays open.
func OpenPast(open func(name string) (*os.File, error), stat Stat, short []Span) Log {
	s := &store{files: newDescriptors()}
	s.files.open = func(name string, _ int) (rawFile, error) {
		f, err := open(name)
		return diskFile{f}, err
	}
	l := s.newLog("")
	l.closed, l.killed = true, stat.Final < 0
	l.end, l.final, l.gaps, l.loss, l.last = stat.End, stat.Final, stat.Gaps, stat.Loss, stat.Last
	l.load = sync.OnceFunc(func() { l.readFiles(stat, short) })
	return l
}

// ready makes the state of a past log that of its files, if that is needed.
func (l *log) ready(toRead bool) {
	if l.load != nil && (toRead || l.killed) {
		l.load()
	}
}

// readFiles makes the state of a past log that of its files: what both of them have.
func (l *log) readFiles(stat Stat, short []Span) {
	data, x := l.store.pastFile("output.log"), index{file: l.store.pastFile("output.streams")}
	var size int64
	var err error
	var g segment
	for _, s := range short {
		g.append(s.Stream, s.Data, shortest)
	}
	if short == nil {
		if size, err = data.size(); err == nil {
			size, err = x.readRecords(size)
		}
	}
	end := max(stat.End, size, g.end())
	gaps := x.missing(size)
	gaps.add(Range{max(size, g.end()), end})
	if len(gaps) > 0 {
		x.gone = allStreams // no file says which they had
	}
	gaps.add(Range{x.cut.From, min(x.cut.To, end)})
	dropped := gaps.size()

	l.mu.Lock()
	defer l.mu.Unlock()
	l.file, l.index, l.stored, l.end, l.gaps, l.gone = data, x, size, end, gaps, x.gone
	if g.end() > 0 {
		l.held = []segment{g}
	}
	if l.final < 0 {
		l.final = end
	}
	if rest := dropped - stat.Dropped; errors.Is(err, fs.ErrNotExist) {
		l.loss.Limit += rest
	} else if rest != 0 {
		l.loss = Loss{Cap: x.cut.To - x.cut.From, Disk: dropped - (x.cut.To - x.cut.From)}
	}
}

// mostRecords bounds the records that a past log has before what was cut out of it, and after that. A
// file that others have changed can have any number.
const mostRecords = 16 << 20

// readRecords reads what there is of the header and the newest records, for a log of which that
// many bytes are there. It returns how many bytes have a label. What a crash of the machine has
// left behind the records, for example zeros, is not part of them.
func (x *index) readRecords(size int64) (labelled int64, err error) {
	bytes, err := x.file.size()
	if err != nil {
		return 0, err
	}
	there := max(0, (bytes-headerSize)/recordSize)
	if err := x.readHeader(there); err != nil {
		return 0, err
	}
	there = min(there, x.records.To+mostRecords)
	valid := func(from, to int64) int64 {
		x.count = to
		return from + int64(sort.Search(int(to-from), func(i int) bool {
			rs, loadErr := x.load(from+int64(i), 1)
			if loadErr != nil {
				err = loadErr
			}
			return loadErr != nil || rs[0] == 0 || rs[0].cursor() >= size
		}))
	}
	if count := valid(x.records.To, there); count > x.records.To || x.records.To == 0 {
		x.count = count
	} else { // nothing after the cut has a label
		count = valid(0, x.records.From)
		size = min(size, x.cut.From)
		x.header, x.count = header{}, count
	}
	if err != nil || x.count == 0 {
		x.count = 0
		return 0, err
	}
	x.recent, err = x.load(max(x.records.To, x.count-maxRecent), maxRecent)
	return size, err
}

// readHeader reads the header of a file with that many records. One that makes no sense counts as
// none.
func (x *index) readHeader(records int64) error {
	b := make([]byte, headerSize)
	if records == 0 {
		return nil
	}
	if _, err := x.file.ReadAt(b, 0); err != nil {
		return err
	}
	n := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	h := header{Range{n(0), n(1)}, Range{n(2), n(3)}, Streams(n(4))}
	if h.gone == 0 { // the disk took half of the header
		h.gone = allStreams
	}
	if 0 <= h.cut.From && h.cut.From < h.cut.To && 0 <= h.records.From && h.records.From <= min(records, mostRecords) && 0 <= h.records.To && h.records.To < records {
		x.header = h
	}
	return nil
}

// missing returns the bytes that the file does not have although it has later ones. The bytes of the
// file end at end.
func (x *index) missing(end int64) (gaps ranges) {
	for _, part := range []Range{{0, min(x.cut.From, end)}, {x.cut.To, end}} {
		if part.From >= part.To || !x.streams(part.From, part.To).Has(lost) {
			continue
		}
		at := part.From
		x.eachRun(at, int(part.To-at), func(s Stream, n int) {
			if s == lost {
				gaps.add(Range{at, at + int64(n)})
			}
			at += int64(n)
		})
	}
	return gaps
}
