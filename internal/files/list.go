//go:build unix

package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/text/view"
)

// The bounds of a listing.
const (
	maxEntries = 1_000_000 // List stops counting here: a huge tree would hold a call for long
	batch      = 4096      // the number of entries that one read of a directory returns
	lineMax    = 4096      // characters of a line; the rest is cut
)

// A Listing says what Dir.List lists.
type Listing struct {
	Depth int  // levels of directories; 1: only the entries of the directory itself
	Tree  bool // draw a tree in place of paths
	Files bool // list files, links and other entries that are not directories
	Dirs  bool // list directories
	Chars int  // bounds the text, in characters
}

// A Listed is the result of Dir.List.
type Listed struct {
	Text       string // one line for each entry that fits
	Shown      int    // the entries in Text
	Count      int    // all entries, including those that did not fit
	Partial    bool   // there are more than a million entries: Count does not include the rest
	Unreadable int    // the directories that could not be read
}

// List lists a directory in the order of names. Directories end in a slash, and links show where
// they lead.
func (d *Dir) List(ctx context.Context, path string, l Listing) (*Listed, error) {
	return d.list(ctx, path, l, maxEntries)
}

// list is List with the bound most in place of maxEntries.
func (d *Dir) list(ctx context.Context, path string, l Listing, most int) (*Listed, error) {
	const doing = "listing"
	root, name, err := d.enter(path)
	if err != nil {
		return nil, failed(doing, path, err)
	}
	defer root.Close()
	walk := &walk{Listing: l, ctx: ctx, root: root, most: most}
	entries, err := walk.read(name)
	if errors.Is(err, syscall.ENOTDIR) {
		err = ErrNotDirectory
	}
	if err == nil && l.Tree {
		walk.line(strings.TrimSuffix(name, "/") + "/")
	}
	if err == nil {
		err = walk.entries(shown(name), entries, "", 1)
	}
	if err != nil {
		return nil, failed(doing, path, err)
	}
	walk.listed.Text = walk.text.String()
	return &walk.listed, nil
}

// shown returns the name of a directory as the paths of its entries begin.
func shown(name string) string {
	name = strings.TrimPrefix(strings.TrimRight(name, "/"), "./")
	if name == "." || name == "" {
		return ""
	}
	return name + "/"
}

// A walk is the state of one call of List.
type walk struct {
	Listing
	ctx    context.Context
	root   *os.Root
	text   strings.Builder
	chars  int  // the length of text, in characters
	full   bool // the next line does not fit
	count  int  // the entries that were read
	most   int  // bounds count
	listed Listed
}

// entries lists the entries of a directory and of the directories below it. The paths of the
// entries begin with dir. In a tree, their lines begin with indent.
func (w *walk) entries(dir string, list []fs.DirEntry, indent string, depth int) error {
	for i, e := range list {
		path, branch, below := dir+e.Name(), indent+"├── ", indent+"│   "
		if i == len(list)-1 {
			branch, below = indent+"└── ", indent+"    "
		}
		if e.IsDir() && w.Dirs || !e.IsDir() && w.Files {
			w.listed.Count++
			if !w.full {
				w.entry(path, e, branch)
			}
		}
		if !e.IsDir() || depth >= w.Depth || w.listed.Partial {
			continue
		}
		entries, err := w.read(path)
		switch {
		case w.ctx.Err() != nil:
			return w.ctx.Err()
		case errors.Is(err, fs.ErrNotExist): // it was deleted meanwhile
			continue
		case err != nil:
			w.listed.Unreadable++
			continue
		}
		if err := w.entries(path+"/", entries, below, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// entry writes the line of an entry, if it fits.
func (w *walk) entry(path string, e fs.DirEntry, branch string) {
	s := path
	if w.Tree {
		s = branch + e.Name()
	}
	switch {
	case e.IsDir():
		s += "/"
	case e.Type()&fs.ModeSymlink != 0:
		if link, err := w.root.Readlink(path); err == nil {
			s += " -> " + link
		}
	case e.Type()&fs.ModeNamedPipe != 0:
		s += " (FIFO)"
	case e.Type()&fs.ModeSocket != 0:
		s += " (socket)"
	case e.Type()&fs.ModeDevice != 0:
		s += " (device)"
	}
	if w.line(s) {
		w.listed.Shown++
	}
}

// line writes a line and reports whether it fits.
func (w *walk) line(s string) bool {
	s = view.Line(s, lineMax) + "\n"
	n := utf8.RuneCountInString(s)
	if w.full = w.full || w.chars+n > w.Chars; w.full {
		return false
	}
	w.text.WriteString(s)
	w.chars += n
	return true
}

// read returns, in the order of names, the entries of a directory that are listed, and the
// directories that can have such entries below them.
func (w *walk) read(name string) ([]fs.DirEntry, error) {
	f, err := directory(w.root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []fs.DirEntry
	for w.ctx.Err() == nil {
		entries, err := f.ReadDir(batch)
		w.count += len(entries)
		all = append(all, entries...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if w.count >= w.most {
			w.listed.Partial = true
			break
		}
	}
	if !w.Files {
		all = slices.DeleteFunc(all, func(e fs.DirEntry) bool { return !e.IsDir() })
	}
	if w.Tree && !w.Dirs {
		all = slices.DeleteFunc(all, fs.DirEntry.IsDir)
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return all, w.ctx.Err()
}

// directory opens a directory. The File of an os.Root stats every entry that it reads, which is
// most of a listing's time. An *os.File over a second descriptor stats only entries whose type the
// file system does not report (d_type, https://man7.org/linux/man-pages/man3/readdir.3.html). It
// stats them by a name that stands for the open directory.
func directory(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd)), nil
}
