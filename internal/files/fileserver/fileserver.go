//go:build unix

// Package fileserver serves the files of a workspace over HTTP. The path of a request is the path
// of the file: GET reads the file, and PUT writes it.
//
// Answers are safe in a browser: they are downloads of a type that no browser runs, and no page of
// another site can use them. The caller checks that the client is allowed to ask.
package fileserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"asyncrepl/internal/files"
)

const (
	maxSize = 1 << 30 // bounds an uploaded file, in bytes

	// oneTime limits one read or write of a body. A client that stops in the middle would hold its
	// connection forever. The time of the full body is not limited, because a large file on a slow
	// link can take long.
	oneTime = 30 * time.Second
)

// A handler serves the files of a workspace.
type handler struct {
	dir     *files.Dir
	maxSize int64         // bounds an uploaded file, in bytes
	oneTime time.Duration // limits one read or write of a body
}

// New returns a handler for the files of d.
func New(d *files.Dir) http.Handler { return &handler{d, maxSize, oneTime} }

// ServeHTTP answers a request.
func (f *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", "attachment")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("Cache-Control", "private, no-cache")
	// A browser requests the scripts and images of a page without an Origin, but with
	// Sec-Fetch-Site (https://www.w3.org/TR/fetch-metadata/).
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		http.Error(w, "requests of pages of other sites are not allowed", http.StatusForbidden)
		return
	}
	var err error
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		err = f.get(w, r)
	case http.MethodPut:
		err = f.put(w, r)
	default:
		h.Set("Allow", "GET, HEAD, PUT")
		http.Error(w, "GET reads a file, and PUT writes one", http.StatusMethodNotAllowed)
	}
	if err != nil {
		http.Error(w, err.Error(), status(err))
	}
}

// get sends a file, or the ranges of it that the request names.
func (f *handler) get(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Path
	if strings.HasPrefix(name, "/") {
		return errAbsolute
	}
	file, err := f.dir.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	h := w.Header()
	h.Set("ETag", tag(file.Info))
	h.Set("Content-Type", "application/octet-stream")
	if disposition := mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}); disposition != "" {
		h.Set("Content-Disposition", disposition)
	}
	patient := &patientWriter{w, http.NewResponseController(w), r.Context(), f.oneTime}
	http.ServeContent(patient, r, "", file.Info.ModTime(), file)
	return nil
}

// Errors of requests.
var (
	errAbsolute     = errors.New("the path of a file is relative to the workspace")
	errPart         = errors.New("a file is replaced as a whole: send all of it, without Content-Range")
	errCoded        = errors.New("send the file as it is, without Content-Encoding")
	errPrecondition = errors.New("the file is not the one that the request is for: its ETag is another one, or there is none, or there is one")
	errTooLarge     = errors.New("a file of more than 1 GiB can't be sent")
	errBody         = errors.New("the body can't be read")
	errShort        = errors.New("the body ends too early")
	errStalled      = errors.New("nothing of the body came for 30 s")
	errEnded        = errors.New("the server has ended this request")
)

// put writes a file.
func (f *handler) put(w http.ResponseWriter, r *http.Request) error {
	switch coding := r.Header.Get("Content-Encoding"); {
	case strings.HasPrefix(r.URL.Path, "/"):
		return errAbsolute
	case r.Header.Get("Content-Range") != "":
		return errPart
	case coding != "" && coding != "identity":
		return errCoded
	case r.ContentLength > f.maxSize:
		return errTooLarge
	}
	body := newPatientReader(w, r, f.oneTime)
	defer body.done()
	written, err := f.dir.Write(r.URL.Path, files.Write{Content: body, Limit: f.maxSize, Check: precondition(r.Header)})
	if errors.Is(err, files.ErrTooLarge) {
		return errTooLarge
	}
	if err != nil {
		return err
	}
	w.Header().Set("ETag", tag(written.Info))
	if written.Replaced {
		w.WriteHeader(http.StatusNoContent)
	} else {
		w.WriteHeader(http.StatusCreated)
	}
	return nil
}

// precondition returns the check that the headers of a request demand of the file to replace
// (https://www.rfc-editor.org/rfc/rfc9110#section-13.1).
func precondition(h http.Header) func(old fs.FileInfo) error {
	ifMatch, ifNone := strings.Join(h["If-Match"], ","), strings.Join(h["If-None-Match"], ",")
	since, err := http.ParseTime(h.Get("If-Unmodified-Since"))
	useSince := err == nil && ifMatch == ""
	return func(old fs.FileInfo) error {
		switch {
		case ifMatch != "" && !matches(ifMatch, old, false),
			ifNone != "" && matches(ifNone, old, true),
			useSince && (old == nil || old.ModTime().Truncate(time.Second).After(since)):
			return errPrecondition
		}
		return nil
	}
}

// matches reports whether there is a file and a list of tags has its tag. If weak is true, weak
// tags count, too: they match files that are equivalent but can differ in their bytes.
func matches(list string, fi fs.FileInfo, weak bool) bool {
	if fi == nil {
		return false
	}
	for t := range strings.SplitSeq(list, ",") {
		t = strings.TrimSpace(t)
		if weak {
			t = strings.TrimPrefix(t, "W/")
		}
		if t == "*" || t == tag(fi) {
			return true
		}
	}
	return false
}

// tag returns the ETag of a file.
func tag(fi fs.FileInfo) string { return `"` + files.Version(fi) + `"` }

// statuses maps errors to statuses. Any other error is the server's fault.
var statuses = []struct {
	err    error
	status int
}{
	{fs.ErrNotExist, http.StatusNotFound},
	{fs.ErrPermission, http.StatusForbidden},
	{files.ErrOutside, http.StatusForbidden},
	{files.ErrNotRegular, http.StatusConflict},
	{files.ErrName, http.StatusBadRequest},
	{files.ErrMoved, http.StatusConflict},
	{files.ErrFull, http.StatusInsufficientStorage},
	{errAbsolute, http.StatusBadRequest},
	{errPart, http.StatusBadRequest},
	{errCoded, http.StatusUnsupportedMediaType},
	{errPrecondition, http.StatusPreconditionFailed},
	{errTooLarge, http.StatusRequestEntityTooLarge},
	{errBody, http.StatusBadRequest},
	{errShort, http.StatusBadRequest},
	{errStalled, http.StatusRequestTimeout},
	{errEnded, http.StatusServiceUnavailable},
}

func status(err error) int {
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status
		}
	}
	return http.StatusInternalServerError
}

// A patientReader reads a body as long as data arrives and ctx is not done.
type patientReader struct {
	io.Reader
	rc   *http.ResponseController
	ctx  context.Context
	time time.Duration // limits one read
	stop func() bool
}

func newPatientReader(w http.ResponseWriter, r *http.Request, oneTime time.Duration) *patientReader {
	b := &patientReader{Reader: r.Body, rc: http.NewResponseController(w), ctx: r.Context(), time: oneTime}
	b.stop = context.AfterFunc(b.ctx, func() { b.rc.SetReadDeadline(time.Unix(1, 0)) })
	return b
}

func (b *patientReader) Read(p []byte) (int, error) {
	until := time.Now().Add(b.time)
	b.rc.SetReadDeadline(until)
	if b.ctx.Err() != nil {
		return 0, errEnded
	}
	n, err := b.Reader.Read(p)
	switch {
	case err == nil || err == io.EOF:
		return n, err
	// ctx has set an earlier deadline.
	case errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(until):
		return n, errEnded
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, errStalled
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, errShort
	}
	return n, fmt.Errorf("%w: %v", errBody, err)
}

// done removes the deadline, which would otherwise end the connection after the request. If the server
// has ended the request, net/http must not wait for the rest of the body.
func (b *patientReader) done() {
	switch stopped := b.stop(); {
	case b.ctx.Err() != nil: // a context has ended before it calls what AfterFunc was given
		b.rc.SetReadDeadline(time.Unix(1, 0))
	case stopped:
		b.rc.SetReadDeadline(time.Time{})
	}
}

// A patientWriter writes an answer as long as its client reads and ctx is not done.
type patientWriter struct {
	http.ResponseWriter
	rc   *http.ResponseController
	ctx  context.Context
	time time.Duration // limits one write
}

func (w *patientWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	w.rc.SetWriteDeadline(time.Now().Add(w.time))
	return w.ResponseWriter.Write(p)
}
