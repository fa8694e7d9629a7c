//go:build unix

package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/sandbox"
	"asyncrepl/jobs"
	"github.com/oklog/ulid/v2"
)

// Past returns the jobs of the runs of the workspace that have ended, the newest first. Those that
// are too many or too old are left out.
func (s *Store) Past(prefix string) iter.Seq[jobs.Past] {
	return func(yield func(jobs.Past) bool) {
		seen := make(map[string]bool)
		for _, places := range s.places(prefix) {
			for e := range s.entries(places) {
				if !strings.HasPrefix(e.id, prefix) || seen[e.id] {
					continue
				}
				p, err := e.past()
				if err != nil || time.Since(p.Record.Ended) > s.config.MaxAge {
					continue // it is no line of ours, or forgotten
				}
				if end := p.Record.Receipt.End; end == jobs.ServerEnded || end == jobs.LeftThere {
					p.Record.Ended = time.Time{} // the last line of its run can be hours older than its end
				}
				if seen[e.id] = true; !yield(p) {
					return
				}
			}
			if len(seen) > 0 {
				return
			}
		}
	}
}

// A place has the runs of one workspace.
type place struct {
	root, path string // a directory that no job can replace, and the directory of the runs below it
	jobs, runs int    // the most jobs and runs that are read: the newest, and those that were changed last
	names      int    // the most names that are read of the directory; 0: all
	bytes      int64  // the most bytes that are read of the journals
	values     int    // the most JSON values that are decoded
}

// What is read of a confined engine's records. Its own limits are those of any engine, but its jobs can write
// what they want.
const (
	// confinedNames bounds the names that are read of a directory.
	confinedNames = 10_000
	// confinedBytes is eight times what the journals of 1,000 jobs usually have.
	confinedBytes = 16 << 20
	// confinedValues bounds what bytes don't: a short value can take long to decode, and much memory.
	confinedValues = 250_000
)

// place returns the place of the directory of a workspace.
func (s *Store) place(path string) place {
	return place{root: path, path: ".", jobs: s.config.Keep, runs: math.MaxInt, bytes: math.MaxInt64, values: math.MaxInt}
}

// places returns where jobs are looked for whose ids begin with prefix: in the first places together, and then in
// the next ones if no job was found. So a job that a confined engine has made up is not shown in the place of
// another's. A person sees the jobs of confined engines, too: the list has those of the workspace, and by its id
// each is found. An agent is not shown them: what it reads of jobs that its own server confined is data, but a
// record that jobs wrote could pass for what its server says.
func (s *Store) places(prefix string) [][]place {
	here := []place{s.place(s.dir())}
	if !s.config.Everywhere {
		return [][]place{here}
	}
	var others, confined []place
	if prefix != "" {
		for _, path := range s.workspaces() {
			if path != s.dir() {
				others = append(others, s.place(path))
			}
		}
	}
	for _, identity := range sandbox.Identities(s.config.State) {
		isOf := func(name string) bool { return strings.HasSuffix(name, "-"+identity) } // both are a hash of the workspace
		if prefix == "" && !isOf(filepath.Base(s.dir())) {
			continue
		}
		root := sandbox.StateOf(s.config.State, identity)
		all, err := openDir(root)
		if err != nil {
			continue
		}
		names := all.at(runsName).names(confinedNames)
		all.root.Close()
		if i := slices.IndexFunc(names, isOf); i >= 0 {
			confined = append(confined, place{
				root: root, path: filepath.Join(runsName, names[i]),
				jobs: s.config.Keep, runs: s.config.Keep, names: confinedNames, bytes: confinedBytes, values: confinedValues,
			})
		}
	}
	if prefix == "" {
		return [][]place{append(here, confined...)}
	}
	return [][]place{here, others, confined}
}

// coarse is how much earlier than the change the time of a changed file can be: some file systems
// store times in units of 2 s.
const coarse = 2 * time.Second

// entries returns the past jobs of some places that are not too many, the newest first. It opens a
// run only when a job of it can be next: usually the newest jobs are those of the last run.
func (s *Store) entries(places []place) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		var runs []pastRun  // not opened yet; the one that was changed last is first
		var heads []*reader // readers with a next job; the newest one is first
		var unread error
		defer func() {
			for _, r := range heads {
				r.file.Close()
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.unread = unread
		}()
		for i := range places {
			all, err := openDir(places[i].root)
			if err != nil {
				continue // there are no runs
			}
			defer all.root.Close()
			runs = append(runs, pastRuns(all.at(places[i].path), &places[i])...)
		}
		slices.SortStableFunc(runs, func(a, b pastRun) int { return b.changed.Compare(a.changed) })
		advance := func(r *reader) {
			if !r.advance() {
				unread = cmp.Or(r.err, unread)
				r.file.Close()
				return
			}
			i, _ := slices.BinarySearchFunc(heads, r, func(a, b *reader) int {
				return cmp.Or(strings.Compare(b.head.id, a.head.id), -1) // of a job that was adopted, the newer run comes first
			})
			heads = slices.Insert(heads, i, r)
		}
		for {
			for len(runs) > 0 && (len(heads) == 0 || !runs[0].changed.Add(coarse).Before(heads[0].head.started())) {
				r, err := openRun(runs[0].dir)
				if err == nil {
					r.place, r.tail.left = runs[0].place, &runs[0].place.bytes
					advance(r)
				} else if err != errLives && err != errUnnamed {
					unread = err
				}
				runs = runs[1:]
			}
			if len(heads) == 0 {
				return
			}
			r := heads[0]
			heads = heads[1:]
			if r.place.jobs--; r.place.jobs < 0 {
				r.file.Close()
				continue
			}
			e := r.head
			advance(r)
			if !yield(e) {
				return
			}
		}
	}
}

// A pastRun is a run that may have ended.
type pastRun struct {
	dir
	place   *place
	changed time.Time // when its journal was changed last: no job of it is newer
}

// pastRuns returns the runs of a place, the ones that were changed last first.
func pastRuns(all dir, of *place) (runs []pastRun) {
	for _, name := range runNames(all, of.names) {
		run := all.at(name)
		st, err := run.root.Lstat(run.at(journalName).path)
		if err != nil {
			continue // another engine has removed it
		}
		runs = append(runs, pastRun{run, of, st.ModTime()})
	}
	slices.SortFunc(runs, func(a, b pastRun) int { return b.changed.Compare(a.changed) })
	return runs[:min(len(runs), of.runs)]
}

// runNames returns the names of the runs in the directory of a workspace, which begin with the time, in
// order. If most is not 0, no more names are read.
func runNames(all dir, most int) []string {
	names := slices.DeleteFunc(all.names(most), func(name string) bool { return !isID(name) })
	slices.Sort(names)
	return names
}

// A reader reads the jobs of a run, the one that began last first.
type reader struct {
	about
	dir     dir
	place   *place
	file    *os.File
	changed time.Time
	tail    tail
	closing bool              // the engine has begun to end its jobs
	reset   map[string]bool   // the sessions that have lost their variables after what was read last
	open    map[string]*entry // the jobs whose end was read and whose start was not
	rest    []*entry          // after the last line: the jobs without a start
	head    entry             // the job that advance has found
	err     error             // why no more can be read; nil: all was
}

// An entry is what a journal has about a job.
type entry struct {
	id     string
	run    *reader
	begin  []byte
	resize []byte // the last one
	end    []byte
	amend  []byte // the last one
}

// started returns when the job was started, from its id.
func (e entry) started() time.Time {
	id, err := ulid.ParseStrict(e.id)
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(id.Time())
}

// openRun opens a run for reading. The error is that of readEnded, or a sentence.
func openRun(run dir) (_ *reader, err error) {
	r := &reader{dir: run, reset: make(map[string]bool), open: make(map[string]*entry)}
	if r.about, err = readEnded(run); err != nil {
		return nil, err
	}
	file, st, err := openJournal(run)
	if err != nil {
		return nil, err
	}
	r.file, r.changed, r.tail = file, st.ModTime(), tail{file: file, at: st.Size()}
	return r, nil
}

// advance makes the next job the head, and reports whether there is one.
func (r *reader) advance() bool {
	for r.err == nil && r.open != nil {
		b, err := r.tail.previous()
		if err != nil {
			if err != io.EOF {
				r.err = err
			}
			r.rest = slices.SortedFunc(maps.Values(r.open), func(a, b *entry) int { return strings.Compare(b.id, a.id) })
			r.open = nil
			break
		}
		event, id, ok := split(b)
		if !ok {
			continue
		}
		switch event {
		case closing:
			r.closing = true
		case reset:
			var n note
			if json.Unmarshal(b, &n) == nil {
				r.reset[n.Session] = true
			}
		case begin:
			e := r.entry(id)
			delete(r.open, id)
			e.begin = b
			r.head = *e
			return true
		case resize:
			if e := r.entry(id); e.resize == nil {
				e.resize = b
			}
		case end:
			if e := r.entry(id); e.end == nil {
				e.end = b
			}
		case amend:
			if e := r.entry(id); e.amend == nil {
				e.amend = b
			}
		}
	}
	if len(r.rest) == 0 {
		return false
	}
	r.head, r.rest = *r.rest[0], r.rest[1:]
	return true
}

// entry returns the entry of a job.
func (r *reader) entry(id string) *entry {
	e := r.open[id]
	if e == nil {
		e = &entry{id: id, run: r}
		r.open[id] = e
	}
	return e
}

// past returns the job of an entry. The error means that it has no line that this version reads.
func (e entry) past() (jobs.Past, error) {
	if e.run.place.values -= values(e.begin) + values(e.resize) + values(e.end) + values(e.amend); e.run.place.values < 0 {
		return jobs.Past{}, errUnsound
	}
	saved, err := e.saved()
	if err != nil {
		return jobs.Past{}, err
	}
	record := &saved.Record
	if record.CodeBytes > 0 && record.Code == "" { // only the line of its start has the code, and nothing else that is needed
		var begun struct{ Record struct{ Code string } }
		json.NewDecoder(bytes.NewReader(e.begin)).Decode(&begun) // an error: the line was never written, or is damaged
		record.Code = begun.Record.Code
	}
	receipt := &record.Receipt
	for _, p := range slices.Concat(receipt.Left, receipt.Unclaimed) {
		receipt.Notes = append(receipt.Notes, p.String()+", which it had left running, ended with its server")
	}
	receipt.Left, receipt.Unclaimed = nil, nil
	files := e.run.dir.at(e.id)
	if killed := record.Output.Final < 0; killed || saved.Short != nil {
		if info, err := files.root.Lstat(files.at("output.log").path); err == nil && info.Size() > 0 {
			saved.Short = nil // late output was shown: the files have that, too
			// Jobs of a confined engine can set any time, also one that is no JSON.
			if at := info.ModTime(); killed && at.After(record.Created.Add(-coarse)) && at.Before(time.Now()) {
				record.Output.Last = at
			}
		}
	}
	root := files.root.Name()
	open := func(name string) (*os.File, error) { // files.root is closed by then
		all, err := openDir(root)
		if err != nil {
			return nil, err
		}
		defer all.root.Close()
		file, _, err := all.at(files.path).open(name)
		return file, err
	}
	return jobs.Past{Saved: saved, Log: output.OpenPast(open, saved.Record.Output, saved.Short)}, nil
}

// saved returns the last state of the job, without its code if it has an end. If its end was not recorded, its
// server has ended it, and Ended is the time of the run's last line, from which on it is kept.
// The error is errVersion, or means that no line about the job is complete.
func (e entry) saved() (saved jobs.Saved, err error) {
	ended, endErr := decode(e.end)
	amended, amendErr := decode(e.amend)
	switch {
	case endErr == errVersion || amendErr == errVersion:
		return saved, errVersion
	case amendErr == nil:
		amended.Short = ended.Short
		return amended, nil
	case endErr == nil:
		return ended, nil
	}
	if saved, err = decode(e.begin); err != nil {
		return saved, err
	}
	record := &saved.Record
	if resized, err := decode(e.resize); err == nil {
		record.Terminal = resized.Record.Terminal
	}
	record.Status, record.Ended = jobs.Failed, e.run.changed
	record.Receipt = jobs.Receipt{End: jobs.ServerEnded, By: jobs.Unknown}
	if record.Kind == jobs.Python {
		record.Receipt.State = jobs.Lost
	}
	if e.run.closing {
		record.Receipt.Stop, record.Receipt.By = &jobs.Stop{By: jobs.Shutdown, From: jobs.Terminate}, jobs.Shutdown
		record.Status = jobs.Cancelled
	}
	if record.Place != "" {
		record.Status, record.Receipt = jobs.Failed, jobs.Receipt{End: jobs.LeftThere, By: jobs.Unknown}
	}
	record.Output.Final = -1 // the files say how much there is
	return saved, nil
}
