//go:build unix

package history

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"asyncrepl/jobs"
)

// A Killed is a run of the workspace whose engine was killed.
type Killed struct {
	Run
	Jobs      []jobs.Record  // had no end, the newest first
	Ended     []EndedProcess // processes that the run had left
	Variables []Variables    // that its sessions had, by the receipts of their jobs; sorted by session
}

// Variables are the variables of one session.
type Variables struct {
	Session string
	Names   []string // in the order in which jobs made them
	More    int      // so many have no name in a receipt
}

// An EndedProcess is a process of a job that outlived its engine and has been ended now.
type EndedProcess struct {
	Job string
	jobs.Process
}

// settledMost bounds the runs that Settle looks at, the newest first. Each engine settles those
// before it, so a run that is further back has been settled.
const settledMost = 32

// Settle accounts for the runs of the workspace whose engines were killed: it ends the processes
// that they have left, and the receipts of their jobs name them. It returns these runs, each to one
// engine only, the newest first.
func (s *Store) Settle() (runs []Killed) {
	s.mu.Lock()
	dir, own := s.workspaceDir(), ""
	if s.run != nil {
		own = s.run.id
	}
	s.mu.Unlock()
	names := runNames(dir)
	slices.Reverse(names) // a name begins with the time
	names = slices.DeleteFunc(names, func(name string) bool { return name == own })
	names = names[:min(len(names), settledMost)]
	for _, name := range names {
		if isSettled(filepath.Join(dir, name)) {
			continue
		}
		err := s.locked(dir, func() error {
			if isSettled(filepath.Join(dir, name)) { // another engine was faster
				return nil
			}
			k, err := s.settle(filepath.Join(dir, name), true)
			if len(k.Jobs)+len(k.Variables)+len(k.Ended) > 0 {
				runs = append(runs, k)
			}
			return err
		})
		if err != nil && !errors.Is(err, errLives) {
			s.config.Log.Warn("settling the records of a server that was killed", "err", err)
		}
	}
	return runs
}

// isSettled reports whether the last line of a journal says that all jobs of the run have ends. A
// journal that can't be read needs no more.
func isSettled(run string) bool {
	file, err := os.OpenFile(filepath.Join(run, journalName), os.O_RDONLY|openFlags, 0)
	if err != nil {
		return true
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return true
	}
	last := make([]byte, min(st.Size(), 256))
	if _, err := file.ReadAt(last, st.Size()-int64(len(last))); err != nil && err != io.EOF {
		return true
	}
	return strings.Contains(string(last), "\n"+lineStart(closed, filepath.Base(run)))
}

// settle accounts for one run. If it is not for good, it only ends and removes what the engine has
// left. The caller holds the lock on the directory of the workspace.
func (s *Store) settle(dir string, forGood bool) (Killed, error) {
	r, err := openRun(dir)
	if err != nil {
		return Killed{}, err
	}
	defer r.file.Close()
	var ended []EndedProcess
	if s.config.Kill != nil {
		ended, err = s.config.Kill(r.Mark)
	}
	k := Killed{Run: r.Run, Ended: ended}
	var amended []jobs.Saved
	var python []jobs.Record // the newest first
	for r.advance() {
		saved, savedErr := r.head.saved()
		if savedErr != nil {
			continue
		}
		record := &saved.Record
		if record.Receipt.End == jobs.ServerEnded && !r.closing {
			k.Jobs = append(k.Jobs, *record)
		}
		if record.Kind == jobs.Python && record.Session != "" {
			python = append(python, *record)
		}
		before := len(record.Receipt.Notes)
		for _, p := range ended {
			if p.Job == record.ID {
				record.Receipt.Notes = append(record.Receipt.Notes, p.String()+" outlived its server, and the next one ended it")
			}
		}
		if len(record.Receipt.Notes) > before {
			amended = append(amended, saved)
		}
	}
	if !r.closing {
		k.Variables = variables(python)
	}
	return k, errors.Join(err, r.amend(amended, forGood), r.removePrograms())
}

// amend appends the amendments of a run whose engine was killed and, for good, the line that says
// that it is settled.
func (r *reader) amend(amended []jobs.Saved, forGood bool) error {
	if !forGood && len(amended) == 0 {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(r.dir, journalName), os.O_WRONLY|openFlags, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return err
	}
	j := journal{file: file, size: st.Size(), newline: true}
	for _, saved := range amended {
		saved.Short = nil
		b, err := encode(amend, saved)
		if err == nil {
			err = j.append(b)
		}
		if err != nil {
			return err
		}
	}
	if forGood {
		if err := j.append(fmt.Appendf(nil, "%s}\n", lineStart(closed, filepath.Base(r.dir)))); err != nil {
			return err
		}
	}
	return errors.Join(j.trim(), r.restoreTime())
}

// removePrograms removes the directory of the programs of the run's jobs.
func (r *reader) removePrograms() error {
	all, err := os.ReadDir(r.dir)
	for _, each := range all {
		if each.IsDir() && len(each.Name()) != idLength { // the others are of jobs
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.dir, each.Name())))
		}
	}
	return err
}

// variables returns the variables that sessions had, by the receipts of their jobs, the newest
// first.
func variables(python []jobs.Record) (list []Variables) {
	bySession := make(map[string]*Variables)
	for _, record := range slices.Backward(python) {
		receipt := record.Receipt
		v := bySession[record.Session]
		if v == nil {
			v = &Variables{Session: record.Session}
			bySession[record.Session] = v
		}
		if receipt.State == jobs.Lost && receipt.End != jobs.ServerEnded {
			*v = Variables{Session: record.Session}
			continue
		}
		v.Names = slices.DeleteFunc(v.Names, func(name string) bool { return slices.Contains(receipt.Names.Gone, name) })
		for _, name := range receipt.Names.New {
			if !slices.Contains(v.Names, name) {
				v.Names = append(v.Names, name)
			}
		}
		made, gone := receipt.Names.NewCount-len(receipt.Names.New), receipt.Names.GoneCount-len(receipt.Names.Gone)
		v.More = max(0, v.More+made-gone)
	}
	for _, v := range bySession {
		if len(v.Names)+v.More > 0 {
			list = append(list, *v)
		}
	}
	slices.SortFunc(list, func(a, b Variables) int { return strings.Compare(a.Session, b.Session) })
	return list
}
