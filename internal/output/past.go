package output

// OpenPast returns the log of a run that has ended, which nobody writes any more: Write is ignored.
// dir is the directory of the log, stat its last known state. If stat.Final is below 0 the run was
// killed, and the files say how much there is. short is what [Log.Short] returned, nil if there is a
// file. No file is opened until the log is read, and none stays open.
func OpenPast(dir string, stat Stat, short []Span) Log {
	l := newLog(segmentSize, newShape(16), 16, nil, nil)
	l.attached.memory = new(memory)
	for _, s := range short {
		l.Write(s.Stream, s.Data)
	}
	l.final, l.closed, l.last = max(stat.Final, 0), true, stat.Last
	return l
}
