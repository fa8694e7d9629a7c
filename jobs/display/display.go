// Package display takes what a job shows besides text: pictures and documents.
//
// A display has one or two forms. The first is what a model sees, if it is a picture within the
// limits of a [Sink]; the last is the full size, which programs read as a resource. The package
// reads the header of a picture and never decodes it, because a job can show a hostile picture.
//
// Begin with [Sink]. The package knows neither Python nor a protocol.
package display

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// The limits of one display and of all displays of a job. The worker of a session has the same, but
// the server does not rely on that.
const (
	MaxForms     = 2
	MaxForm      = 8 << 20 // bytes of a form
	MaxPicture   = 1 << 20 // bytes of a picture for a model
	maxSide      = 1568    // pixels, the longer side of a picture for a model
	maxPictures  = 10      // pictures of a job that a model sees
	picturesSize = 8 << 20 // bytes, all pictures of a job that a model sees
	maxDisplays  = 100     // displays kept of a job
	displaysSize = 64 << 20
)

const titleMax = 200 // characters

// A Form is one form of a display: its MIME type and its content.
type Form struct {
	MIME string
	Data []byte
}

// A Sink takes the displays of one job. A model sees 10 pictures of them, with 8 MiB in all. The sink
// keeps 100 displays with 64 MiB in all and leaves out the others. A display that the job has
// replaced takes no place.
type Sink struct {
	port *jobs.Port

	mu      sync.Mutex
	left    int   // displays that were left out
	cleared int64 // the cursor up to which the job had replaced its output when left was counted
}

// NewSink returns the sink of a job.
func NewSink(p *jobs.Port) *Sink { return &Sink{port: p} }

// JobID returns the id of the job.
func (s *Sink) JobID() string { return s.port.ID() }

// Add shows a display, unless it is beyond the limits or malformed. Its title is the label, if any,
// and what about says of it. The caller must not change the data of the forms any more.
func (s *Sink) Add(label, about string, forms []Form) { s.add(label, about, forms, false) }

// AddQuietly is Add without a line in the output: the text that the job prints next says the same.
func (s *Sink) AddQuietly(label, about string, forms []Form) { s.add(label, about, forms, true) }

func (s *Sink) add(label, about string, forms []Form, quiet bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := jobs.Display{Title: title(label, about)}
	var data [][]byte
	for _, f := range forms {
		if !jobs.ValidType(f.MIME) || len(f.Data) > MaxForm {
			s.leave(1)
			return
		}
		d.Forms, data = append(d.Forms, jobs.Form{MIME: f.MIME, Size: len(f.Data)}), append(data, f.Data)
	}
	if len(forms) == 0 || len(forms) > MaxForms {
		s.leave(1)
		return
	}
	var flaw string
	if d.Picture, flaw = picture(forms[0]); flaw != "" {
		d.Title += ", not shown: " + flaw
	}
	shown := s.port.Shown()
	if len(shown) >= maxDisplays || sizeOf(shown)+sizeOf([]jobs.Display{d}) > displaysSize {
		s.leave(1)
		return
	}
	d.Unseen = d.Picture && !roomToSee(shown, d)
	line := func(n int) string { return fmt.Sprintf("[%s, %s]", d.Title, URI(s.port.ID(), n)) }
	if quiet {
		line = nil
	}
	s.port.Display(d, data, line)
}

// sizeOf returns the bytes of displays in all their forms.
func sizeOf(list []jobs.Display) (size int) {
	for _, d := range list {
		for _, f := range d.Forms {
			size += f.Size
		}
	}
	return size
}

// roomToSee reports whether a model can see the picture d beside those that it sees.
func roomToSee(shown []jobs.Display, d jobs.Display) bool {
	pictures, size := 1, d.Forms[0].Size
	for _, other := range shown {
		if other.Picture && !other.Unseen {
			pictures++
			size += other.Forms[0].Size
		}
	}
	return pictures <= maxPictures && size <= picturesSize
}

// Clear replaces what the job has shown, as [jobs.Port.Clear] does.
func (s *Sink) Clear(wait bool) { s.port.Clear(wait) }

// Leave counts displays that were left out elsewhere.
func (s *Sink) Leave(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(max(0, n))
}

// leave counts displays that were left out. The caller holds s.mu.
func (s *Sink) leave(n int) {
	s.left = s.leftOut() + n
	s.cleared = s.port.Cleared()
}

// leftOut returns how many displays were left out of the output that the job has not replaced. The
// caller holds s.mu.
func (s *Sink) leftOut() int {
	if s.port.Cleared() > s.cleared {
		return 0
	}
	return s.left
}

// Note says how many displays were left out. It returns the empty string if none was.
func (s *Sink) Note() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.leftOut()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s"+leftOut+": %d displays of a job are kept, with %d MiB in all", view.Count(n), maxDisplays, displaysSize>>20)
}

const leftOut = " more displays were left out"

// IsNote reports whether [Sink.Note] wrote a note of a receipt.
func IsNote(note string) bool { return strings.Contains(note, leftOut) }

// URI returns the URI of display n of a job.
func URI(job string, n int) string { return fmt.Sprintf("job://%s/display/%d", job, n) }

// title returns the title of a display, for its line.
func title(label, about string) string {
	t := view.Line(cmp.Or(strings.TrimSpace(label), "display"), titleMax/2)
	if about = strings.TrimSpace(about); about != "" {
		t += ": " + view.Line(about, titleMax/2)
	}
	return t
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
