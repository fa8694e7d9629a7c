// Package display takes what a job shows besides text: pictures and documents.
//
// A display has one or two forms. The first is what a model sees, if it is a picture within the
// limits of [NewSink]; the last is the full size, which programs read as a resource. The package
// reads the header of a picture and never decodes it: what a job shows is hostile.
//
// Begin with [Sink]. The package knows neither Python nor a protocol.
package display

import (
	"cmp"
	"fmt"
	"mime"
	"strings"
	"sync"

	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// The limits of one display and of all displays of a job. The worker of a session has the same, but
// the server does not rely on that.
const (
	MaxForms     = 2
	MaxForm      = 8 << 20 // bytes of a form
	MaxPicture   = 1 << 20 // bytes of a picture for a model
	maxSide      = 1568    // pixels of it
	maxPictures  = 10      // of a job
	picturesSize = 8 << 20 // bytes of these
	maxDisplays  = 100     // of a job
	displaysSize = 64 << 20
)

const (
	titleMax = 200 // characters
	mimeMax  = 100 // bytes
)

// A Form is one form of a display: its MIME type and its content.
type Form struct {
	MIME string
	Data []byte
}

// A Sink takes the displays of one job and leaves out those beyond its limits: 10 pictures for a
// model with 8 MiB in all, and 100 displays with 64 MiB in all.
type Sink struct {
	port *jobs.Port

	mu           sync.Mutex
	pictures     int // that a model sees
	pictureBytes int // of these, in the form for the model
	displays     int
	displayBytes int // of these, in all forms
	left         int // displays that were left out
}

// NewSink returns the sink of a job.
func NewSink(p *jobs.Port) *Sink { return &Sink{port: p} }

// JobID returns the id of the job.
func (s *Sink) JobID() string { return s.port.ID() }

// Add shows a display, unless it is beyond the limits or malformed. Its title is the label, if any,
// and what about says of it. The caller must not change the data of the forms any more.
func (s *Sink) Add(label, about string, forms []Form) {
	d := jobs.Display{Title: title(label, about)}
	var data [][]byte
	size := 0
	for _, f := range forms {
		if !plausible(f.MIME) || len(f.Data) > MaxForm {
			s.Leave(1)
			return
		}
		d.Forms, data = append(d.Forms, jobs.Form{MIME: f.MIME}), append(data, f.Data)
		size += len(f.Data)
	}
	if len(forms) == 0 || len(forms) > MaxForms {
		s.Leave(1)
		return
	}
	var flaw string
	if d.Picture, flaw = picture(forms[0]); flaw != "" {
		d.Title += ", not shown: " + flaw
	}
	if s.admit(d.Picture, len(forms[0].Data), size) {
		s.port.Display(d, data, func(n int) string { return fmt.Sprintf("[%s, %s]", d.Title, URI(s.port.ID(), n)) })
	}
}

// admit counts a display and reports whether it is within the limits. first is the size of its first
// form, all that of all forms, in bytes.
func (s *Sink) admit(picture bool, first, all int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !picture {
		first = 0
	}
	if s.displays == maxDisplays || s.displayBytes+all > displaysSize || picture && s.pictures == maxPictures || s.pictureBytes+first > picturesSize {
		s.left++
		return false
	}
	s.displays++
	s.displayBytes += all
	s.pictureBytes += first
	if picture {
		s.pictures++
	}
	return true
}

// Leave counts displays that were left out elsewhere.
func (s *Sink) Leave(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += max(0, n)
}

// Note says how many displays were left out. It returns the empty string if none was.
func (s *Sink) Note() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 {
		return ""
	}
	return fmt.Sprintf("%s more displays were left out: a job can show %d pictures with %d MiB in all, and %d displays with %d MiB in all",
		view.Count(s.left), maxPictures, picturesSize>>20, maxDisplays, displaysSize>>20)
}

// URI returns the URI of display n of a job.
func URI(job string, n int) string { return fmt.Sprintf("job://%s/display/%d", job, n) }

// title returns what the line of a display says of it.
func title(label, about string) string {
	t := view.Line(cmp.Or(strings.TrimSpace(label), "display"), titleMax/2)
	if about = strings.TrimSpace(about); about != "" {
		t += ": " + view.Line(about, titleMax/2)
	}
	return t
}

// plausible reports whether a MIME type is written as one.
func plausible(t string) bool {
	base, _, err := mime.ParseMediaType(t)
	foreign := func(r rune) bool { return r < ' ' || r > '~' }
	return err == nil && len(t) <= mimeMax && strings.Contains(base, "/") && !strings.ContainsFunc(t, foreign)
}

// picture reports whether a form is a picture that a model can be shown, or else what is wrong with
// the picture. What a job shows is one only as a PNG or JPEG; any other form has no flaw.
func picture(f Form) (ok bool, flaw string) {
	if f.MIME != "image/png" && f.MIME != "image/jpeg" {
		return false, ""
	}
	flaw = Flaw(f)
	return flaw == "", flaw
}
