package display

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"asyncrepl/internal/test/must"
)

// A worker that kept lower limits would leave out what the notes of the server promise. One that
// kept higher ones would send what the server leaves out.
func TestWorkerKeepsTheSameLimits(t *testing.T) {
	source := must.Get(os.ReadFile("../../pyrepl/worker/views.py"))(t)
	worker := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z]+) = (\d+)(?: << (\d+))? `).FindAllSubmatch(source, -1) {
		n := must.Get(strconv.Atoi(string(m[2])))(t)
		shift, _ := strconv.Atoi(string(m[3])) // 0 if there is none
		worker[string(m[1])] = n << shift
	}
	for name, want := range map[string]int{
		"SIDE": maxSide, "SHOWN": MaxPicture, "ITEM": MaxForm, "DISPLAYS": maxDisplays, "KEPT": displaysSize,
	} {
		if worker[name] != want {
			t.Errorf("%s is %d in the worker, and %d here", name, worker[name], want)
		}
	}
}
