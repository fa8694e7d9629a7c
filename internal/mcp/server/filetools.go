package server

// This file has the replies of the tools for files: what package files does with the arguments of a
// call, in words.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"asyncrepl/internal/files"
	"asyncrepl/internal/mcp/arguments"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs/display"
)

const (
	writeMax     = 64 << 20 // bytes; a request can't hold as much
	defaultDepth = 3        // levels of directories
	maxDepth     = 1000     // levels too; a path can't have as many
)

// listFiles answers list_files in about that many characters.
func listFiles(ctx context.Context, d *files.Dir, a *arguments.Args, chars int) (*report.Reply, error) {
	l := files.Listing{Depth: 1, Tree: a.Tree, Files: on(a.IncludeFiles), Dirs: on(a.IncludeDirs), Chars: chars}
	if a.Recursive || a.Tree {
		l.Depth = int(min(value(a.MaxDepth, defaultDepth), maxDepth))
	}
	if !l.Files && !l.Dirs { // a client that can't leave them out says so that they are not set
		l.Files, l.Dirs = true, true
	}
	path := cmp.Or(a.Path, ".")
	listed, err := d.List(ctx, path, l)
	if errors.Is(err, files.ErrNotDirectory) {
		return nil, fmt.Errorf("%w; read_file reads files", err)
	}
	if err != nil {
		return nil, err
	}
	r := &report.Reply{}
	r.Line("Directory", path)
	entries := view.Count(listed.Count)
	if l.Depth > 1 {
		entries += fmt.Sprintf(" to a depth of %d", l.Depth)
	}
	if listed.Partial {
		entries += " and more, not counted"
	}
	if listed.Shown < listed.Count {
		entries += fmt.Sprintf("; the first %s are shown: give a path further down for others", view.Count(listed.Shown))
	}
	r.Line("Entries", entries)
	if listed.Unreadable > 0 {
		r.Line("Note", view.Count(listed.Unreadable)+" of the directories can't be read")
	}
	if listed.Text != "" {
		r.Body(listed.Text)
	}
	return r, nil
}

// readFile answers read_file: with text, also if it is damaged, an image, or else base64. It shows as many characters as chars,
// or as the call asks for.
func readFile(d *files.Dir, a *arguments.Args, chars int) (*report.Reply, error) {
	offset, most := value(a.Offset, 0), value(a.MaxBytes, math.MaxInt64)
	if a.MaxBytes != nil {
		chars = arguments.MaxText
	}
	// A character takes four bytes at most.
	part, err := d.Read(a.Path, offset, min(most, int64(chars)*4))
	if err != nil {
		if errors.Is(err, files.ErrIsDirectory) {
			err = fmt.Errorf("%w; list_files lists it", err)
		}
		return nil, err
	}
	mime := ""
	if offset == 0 {
		mime = display.Kind(part.Data)
	}
	if mime != "" && a.MaxBytes == nil {
		return imageReply(d, a.Path, mime)
	}
	if offset > part.Size {
		return nil, report.Mistakef("offset %d is beyond the end of the file, %d.", offset, part.Size)
	}
	r := &report.Reply{}
	r.Line("File", a.Path+", "+view.CountOf(part.Size, "byte"))
	text := mime == "" && part.Text()
	if text {
		part.Cut(chars)
		if n := part.Damaged(); n > 0 {
			r.Line("Encoding", "not UTF-8; "+view.CountOf(n, "byte")+" shown as �")
		}
	} else {
		part.Data = part.Data[:min(len(part.Data), chars/4*3)]
		r.Line("Encoding", "base64")
	}
	if part.From > 0 || part.Next() < part.Size {
		shown := fmt.Sprintf("bytes %d to %d", part.From, part.Next())
		if part.Next() < part.Size {
			shown += fmt.Sprintf("; continue with offset=%d", part.Next())
		}
		r.Line("Shown", shown)
	}
	body := string([]rune(string(part.Data))) // each damaged byte is a character of its own
	if !text {
		body = base64.StdEncoding.EncodeToString(part.Data)
	}
	r.Body(body)
	return r, nil
}

// imageReply returns the reply for a file that is an image.
func imageReply(d *files.Dir, path, mime string) (*report.Reply, error) {
	all, err := d.Read(path, 0, display.MaxPicture+1)
	if err != nil {
		return nil, err
	}
	r := &report.Reply{}
	r.Line("File", path+", "+view.CountOf(all.Size, "byte")+", "+mime)
	if flaw := display.Flaw(display.Form{MIME: mime, Data: all.Data}); flaw != "" {
		r.Line("Note", "not shown: "+flaw+"; max_bytes shows it as base64")
		return r, nil
	}
	r.Blocks = []report.Block{{MIMEType: mime, Size: len(all.Data), Read: func() ([]byte, error) { return all.Data, nil }}}
	return r, nil
}

// writeFile answers write_file.
func writeFile(d *files.Dir, a *arguments.Args) (*report.Reply, error) {
	content := []byte(a.Content)
	if a.BinaryBase64 {
		var err error
		if content, err = decode(a.Content); err != nil {
			return nil, report.Mistakef("content is not valid base64: %v. Nothing was written.", err)
		}
	}
	w := files.Write{Content: bytes.NewReader(content), Limit: writeMax}
	if !on(a.Overwrite) {
		w.Check = files.Fresh
	}
	written, err := d.Write(a.Path, w)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w; overwrite=true replaces it", err)
	}
	if err != nil {
		return nil, err
	}
	r := &report.Reply{}
	how := "new"
	if written.Replaced {
		how = "in place of the old content"
	}
	r.Line("Written", fmt.Sprintf("%s, %s, %s", a.Path, view.CountOf(len(content), "byte"), how))
	return r, nil
}

// decode decodes base64, whether or not it has line ends or padding.
func decode(s string) ([]byte, error) {
	s = strings.NewReplacer("\r", "", "\n", "", " ", "").Replace(s)
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
}

// deleteFile answers delete_file.
func deleteFile(d *files.Dir, a *arguments.Args) (*report.Reply, error) {
	path := cmp.Or(a.Path, a.Filename)
	switch {
	case path == "":
		return nil, report.Mistakef("path is missing. Give the path of the file to delete.")
	case a.Path != "" && a.Filename != "":
		return nil, report.Mistakef("path and filename are both given. They mean the same: give path.")
	}
	if err := d.Remove(path); err != nil {
		return nil, err
	}
	r := &report.Reply{}
	r.Line("Deleted", path)
	return r, nil
}

// editFile answers edit_file.
func editFile(d *files.Dir, a *arguments.Args) (*report.Reply, error) {
	switch {
	case a.Old == "":
		return nil, report.Mistakef("old is empty. Give the text to replace; write_file makes a new file.")
	case a.Old == a.New:
		return nil, report.Mistakef("old and new are the same: nothing would change.")
	}
	lines, err := d.Edit(a.Path, a.Old, a.New, int(min(value(a.Count, 1), math.MaxInt32)))
	if err != nil {
		return nil, err
	}
	r := &report.Reply{}
	in := "line "
	if len(lines) > 1 {
		in = "lines "
	}
	r.Line("Edited", fmt.Sprintf("%s, %s: %s%s", a.Path, view.CountOf(len(lines), "place"), in, files.Lines(lines)))
	return r, nil
}

// on returns a boolean that is true by default.
func on(b *bool) bool { return b == nil || *b }

// value returns a number or its default.
func value(n *int64, def int64) int64 {
	if n == nil {
		return def
	}
	return *n
}
