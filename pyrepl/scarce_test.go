package pyrepl_test

import (
	"strings"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// Code that has opened all the descriptors it may, and keeps them, harms only what needs one
// itself: the session takes jobs, asks and reports.
func TestNoDescriptorsLeft(t *testing.T) {
	inFull(t)
	for name, limit := range map[string]string{
		"as started": "",
		"lowered":    "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.want(limit, "completed")
			b.want("import os\nheld = []\ndef fill():\n    while True: held.append(os.dup(0))", "completed")
			for range 3 {
				b.want("fill()", "failed (OSError: [Errno 24] Too many open files)")
				if _, out := b.want("print('out')", "completed"); out != "out\n" {
					t.Errorf("output %q", out)
				}
			}
			if _, out := b.run("1 / 0"); !strings.Contains(out, "ZeroDivisionError: division by zero") {
				t.Errorf("the report is %q", out)
			}
			j := b.start("input('name? ')")
			jobstest.Asks(t, j)
			jobstest.Send(t, j, jobs.Input{Text: "me", Line: true})
			if record := jobstest.End(t, j); record.Result != "'me'" {
				t.Errorf("the answer is %s", record.Result)
			}
			b.result("for fd in held: os.close(fd)\nos.system('true')", "0")
		})
	}
}

// Code that has used all the memory it may, and keeps it, fails with out of memory, and the next
// job can release it.
func TestNoMemoryLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("fills memory")
	}
	if freeThreaded(t, python(t)) {
		t.Skip("a free-threaded build takes memory in large blocks: what is left of 48 MB is not enough to report with")
	}
	for name, fill := range map[string]string{
		"large": "while True: x.append(bytearray(1 << 20))",
		"small": "while True: x.append(bytearray(100))",
		"tiny":  "while True: x.append(str(len(x)))",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.run("import resource\nx = []\npages = int(open('/proc/self/statm').read().split()[0])\n" +
				"resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (48 << 20), resource.RLIM_INFINITY))")
			for range 3 {
				if _, out := b.want(fill, "failed (out of memory; variables kept)"); !strings.Contains(out, "MemoryError") {
					t.Errorf("output %q", out)
				}
			}
			b.want("del x", "completed")
			b.result("len(bytearray(16 << 20))", "16777216")
		})
	}
}
