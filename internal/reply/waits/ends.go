package waits

import (
	"fmt"
	"slices"
	"strings"
)

// endsText says why a wait for the end of several jobs is over: which jobs met the condition, or
// that no job did. every says that all had to end.
func endsText(outcomes []Outcome, every bool) string {
	ended := 0
	var met []string
	for _, o := range outcomes {
		record := o.record
		switch {
		case record.Asks():
			met = append(met, "job "+record.ID+" waits for input")
		case o.probably():
			met = append(met, "job "+record.ID+" accepts input")
		}
		if record.Status.Final() {
			ended++
			if !every {
				met = append(met, "job "+record.ID+" "+string(record.Status))
			}
		}
	}
	if every && ended == len(outcomes) {
		return "met: all have ended"
	}
	if len(met) > 0 {
		slices.Sort(met)
		const most = 3
		if len(met) > most {
			met = append(met[:most], fmt.Sprintf("%d more", len(met)-most))
		}
		return "met: " + strings.Join(met, ", ")
	}
	return fmt.Sprintf("not met: %d of %d have ended; call again to wait longer", ended, len(outcomes))
}
