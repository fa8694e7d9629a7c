//go:build unix

package page

import "asyncrepl/jobs"

// addKeys adds the keys of r to those that are not typed yet, which are in a channel with room for one list.
// Its reader types them beside the caller: a program that reads nothing must not keep the page from saying
// what it has drawn.
func (l *live) addKeys(pending chan []Request, r Request) {
	var list []Request // the keys of one job in one
	select {
	case list = <-pending:
	default:
	}
	size := len(r.Job) + len(r.Text)
	for _, p := range list {
		size += len(p.Job) + len(p.Text)
	}
	switch n := len(list); {
	case r.Text == "":
	case size > answerMax:
		l.refuse("More than 64 KiB that no program has taken; nothing was sent.")
	case n > 0 && list[n-1].Job == r.Job:
		list[n-1].Text += r.Text
	default:
		list = append(list, r)
	}
	if list != nil {
		pending <- list
	}
}

// typeKeys types the keys that come.
func (l *live) typeKeys(pending <-chan []Request) {
	for list := range pending {
		for _, r := range list {
			j, err := l.jobs.Get(r.Job)
			if err != nil {
				l.refuse("There is no such job; nothing was sent.")
			} else if why := l.typeFor(l.ctx, j, jobs.Input{Text: r.Text}); why != "" {
				l.refuse(why)
			}
		}
	}
}
