package report

import (
	"fmt"
	"strings"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
)

// The most pictures of one reply, and their bytes. A client turns each into hundreds of tokens, and
// sends all of them to its model again with each later message.
const (
	maxBlocks    = 10
	maxBlockSize = 4 << 20
)

// pictures returns the pictures of the display lines that x shows, as many as a reply can carry. A
// line that two pages share belongs to the page that shows its end. If there are more, pictures
// adds a line that says how to get them, and names those that are only resources.
func (r *Reply) pictures(j *jobs.Job, x excerpt) (list []jobs.Form) {
	size, more, first := 0, 0, ""
	var unseen []int // the numbers of pictures that are only resources
	// They are listed after the excerpt was taken, so each line has its display.
	for _, d := range j.Displays() {
		if !d.Picture || !x.shows(d.Line.To-1) {
			continue
		}
		if d.Unseen {
			unseen = append(unseen, d.Number)
			continue
		}
		picture := d.Forms[0]
		if more > 0 || len(list) == maxBlocks || size+picture.Size > maxBlockSize {
			if more++; more == 1 {
				first = fmt.Sprintf("from cursor %d on; the first is %s", d.Line.From, display.URI(j.ID(), d.Number))
			}
			continue
		}
		size += picture.Size
		list = append(list, picture)
	}
	var said []string
	if more > 0 {
		said = append(said, view.Count(more)+", "+first)
	}
	if n := len(unseen); n > 0 {
		text := view.Count(n) + " as resources only: " + display.URI(j.ID(), unseen[0])
		if n > 1 {
			text += fmt.Sprintf(" to %d", unseen[n-1])
		}
		said = append(said, text)
	}
	if said != nil {
		r.Line("More images", strings.Join(said, "; "))
	}
	return list
}

// attach adds pictures of a job to the reply.
func (r *Reply) attach(j *jobs.Job, pictures []jobs.Form) {
	for _, p := range pictures {
		r.Blocks = append(r.Blocks, Block{p.MIME, p.Size, func() ([]byte, error) { return j.Data(p) }})
	}
}
