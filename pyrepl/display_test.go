package pyrepl_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
	"asyncrepl/jobs/jobstest"
)

// forge lets user code send events by the worker's own channel. show(items, files) sends a display;
// an item is a type with data, or with the size of the data in the next file. It returns once all
// holders of the files have closed them.
const forge = `
import array, gc, json, os, socket, struct, tempfile, zlib
from binascii import b2a_base64
def find(name):
    return [o for o in gc.get_objects() if type(o).__name__ == name][0]
channel, streams = find('Channel'), find('Streams')
def send(line, files=()):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', files))] if files else []
    n = channel.sock.sendmsg([line], rights)
    channel.sock.sendall(line[n:])
def line(items, event='display', **fields):
    items = [dict(mime=mime, size=data) if type(data) is int else
             dict(mime=mime, size=len(data), data=b2a_base64(data).decode()) for mime, data in items]
    fields = dict(dict(id=streams.running.id, label='figure 1', about='x', items=items), **fields)
    return (channel._begin + event + ' ' + json.dumps(fields) + '\n').encode()
def show(items, files=(), **fields):
    if streams.running.out: streams.running.flush()
    seen, told = os.pipe()
    send(line(items, **fields), [*files, told])
    os.close(told)
    os.read(seen, 1)
    os.close(seen)
def file(data):
    f = tempfile.TemporaryFile() if not hasattr(os, 'memfd_create') else open(os.memfd_create('x'), 'w+b')
    f.write(data)
    f.flush()
    return f
def png(n, size=0):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(b'\0\0'))
            + chunk(b'IEND', b'') + bytes(size) + bytes([n]))
`

// forging returns a bench whose session knows forge.
func forging(t *testing.T) *bench {
	b := newBench(t)
	b.want(forge, "completed")
	return b
}

// formats returns the data of all forms of a job's displays, each begun by its type.
func formats(t *testing.T, j *jobs.Job) (all [][]string) {
	t.Helper()
	for _, d := range j.Displays() {
		var forms []string
		for _, f := range d.Forms {
			data, err := j.Data(f)
			if err != nil {
				t.Fatal(err)
			}
			forms = append(forms, f.MIME+":"+string(data))
		}
		all = append(all, forms)
	}
	return all
}

// What is shown has its place among what is printed before it and after it, on any stream. The worker
// shows the pictures of libraries in the same way.
func TestValuesAreShownBetweenWhatIsPrinted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const rounds = 30
	j := b.start(fmt.Sprintf(`
import os
class Page:
    def _repr_html_(self): return '<b>' * 10
class Large:
    def _repr_svg_(self): return '<svg>' * 100_000
for i in range(%d):
    print('before', i)
    display(Page(), Large())
    os.write(1, b'after\n')
`, rounds))
	record := jobstest.End(t, j)
	var want strings.Builder
	for i := range rounds {
		fmt.Fprintf(&want, "before %d\n[html %d: HTML 30 bytes, %s]\n", i, 2*i+1, display.URI(j.ID(), 2*i+1))
		fmt.Fprintf(&want, "[svg %d: SVG 488.3 KiB, %s]\nafter\n", 2*i+2, display.URI(j.ID(), 2*i+2))
	}
	if got := jobstest.Output(j); got != want.String() {
		t.Errorf("%s, %q, output\n%s", record.Receipt.Text(), record.Receipt.Notes, got)
	}
	for i, forms := range formats(t, j) {
		if want := []string{"text/html:" + strings.Repeat("<b>", 10), "image/svg+xml:" + strings.Repeat("<svg>", 100_000)}[i%2]; len(forms) != 1 || forms[0] != want {
			t.Errorf("display %d: %.50q", i+1, forms)
		}
	}
	record, _ = b.run("for _ in range(105): display(Page())")
	if notes := strings.Join(record.Receipt.Notes, ";"); !strings.HasPrefix(notes, "5 more displays were left out") {
		t.Errorf("notes %q", notes)
	}
	j = b.start("for _ in range(9): display({'text/html': 'x' * (8 << 20)}, raw=True)")
	notes := strings.Join(jobstest.End(t, j).Receipt.Notes, ";")
	if n := len(j.Displays()); n != 8 || !strings.HasPrefix(notes, "1 more display") || !strings.HasSuffix(notes, "100 displays of a job are kept, with 64 MiB in all") {
		t.Errorf("%d displays of 8 MiB, notes %q", n, notes)
	}
}

// A live plot ends with its last state, whatever streams it prints to: each clear stands exactly
// between what was printed before it and after it.
func TestLivePlotEndsWithItsLastState(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	j := b.start(`
import os, sys
class Page:
    def _repr_html_(self): return '<b>' * 30_000
for i in range(150):
    display('epoch %d' % i, clear=True)
    os.write(2, b'written %d\n' % i)
    display(Page())
    print('after', i, end='')
`)
	record := jobstest.End(t, j)
	all := j.Displays()
	if len(all) != 1 || all[0].Number != 150 || len(record.Receipt.Notes) != 0 {
		t.Fatalf("%s, notes %q, displays %+v", record.Receipt.Text(), record.Receipt.Notes, all)
	}
	streams := map[output.Stream]string{}
	for _, s := range j.Log().Read(j.Cleared(), 1<<20).Spans {
		streams[s.Stream] += string(s.Data)
	}
	want := map[output.Stream]string{
		output.Stdout: "'epoch 149'\nafter 149", output.Stderr: "written 149\n",
		output.Display: fmt.Sprintf("[html 150: HTML 87.9 KiB, %s]\n", display.URI(j.ID(), 150)),
	}
	if !maps.Equal(streams, want) {
		t.Errorf("left: %q, want %q", streams, want)
	}
	record, _ = b.run("for n in range(120): display(Page())\ndisplay(Page(), clear=True)")
	if len(record.Receipt.Notes) != 0 {
		t.Errorf("notes %q about what was replaced", record.Receipt.Notes)
	}
}

// Data comes in the event or as a file, whole.
func TestDisplayDataComesWhole(t *testing.T) {
	inFull(t)
	b := forging(t)
	j := b.start(`
from hashlib import sha256
big, little = os.urandom(8 << 20), png(1, 1000000)
with file(little) as small, file(big) as large, file(b'') as none:
    show([('image/png', png(7))])
    show([('image/png', len(little)), ('image/png', 8 << 20)], [small.fileno(), large.fileno()])
    show([('image/png', png(8)), ('image/svg+xml', 8 << 20)], [large.fileno()])
    show([('text/html', 0)], [none.fileno()])
    show([('text/plain', 100)], [large.fileno()])
'\n'.join(mime + ' ' + sha256(data).hexdigest() for mime, data in [('image/png', png(7)), ('image/png', little), ('image/png', big),
    ('image/png', png(8)), ('image/svg+xml', big), ('text/html', b''), ('text/plain', big[:100])])
`)
	record := jobstest.EndsAs(t, j, "completed")
	if len(record.Receipt.Notes) != 0 {
		t.Errorf("notes %q", record.Receipt.Notes)
	}
	var got, pictures []string
	for i, forms := range formats(t, j) {
		for _, form := range forms {
			mime, data, _ := strings.Cut(form, ":")
			got = append(got, fmt.Sprintf("%s %x", mime, sha256.Sum256([]byte(data))))
		}
		pictures = append(pictures, fmt.Sprint(len(forms), j.Displays()[i].Picture))
	}
	if got := "'" + strings.Join(got, `\n`) + "'"; got != record.Result {
		t.Errorf("the displays are\n%s, want\n%s", got, record.Result)
	}
	if want := []string{"1 true", "2 true", "2 true", "1 false", "1 false"}; !slices.Equal(pictures, want) {
		t.Errorf("the displays have %q forms, pictures or not, want %q", pictures, want)
	}
}

// What was shown before a crash stays.
func TestDisplaysSurviveTheWorker(t *testing.T) {
	inFull(t)
	b := forging(t)
	j := b.start(`
for i in range(5):
    with file(png(i, 100000)) as f:
        send(line([('image/png', 100068)]), [f.fileno()])
os.kill(os.getpid(), 9)
`)
	if record := jobstest.End(t, j); record.Receipt.Text() != "failed (killed by SIGKILL; variables lost)" {
		t.Error(record.Receipt.Text())
	}
	if n := len(formats(t, j)); n != 5 {
		t.Errorf("%d displays", n)
	}
}

func TestJobSaysHowManyDisplaysWereLeftOut(t *testing.T) {
	b := forging(t)
	for _, test := range [][2]string{
		{"for i in range(103): show([('image/png', png(i % 256))])", "3"},
		{"show([('image/png', png(1))] * 3); show([('x', b'y')]); show([]); show([('image/png', 10)])", "4"},
		{"send(line([], event='done', end='returned', displays_left=5))", "5"},
		{"for i in range(101): show([('image/png', png(i))])\nos.kill(os.getpid(), 9)", "1"},
	} {
		code, want := test[0], test[1]
		record, out := b.run(code)
		i := slices.IndexFunc(record.Receipt.Notes, func(n string) bool { return strings.Contains(n, "left out") })
		if i < 0 || !strings.HasPrefix(record.Receipt.Notes[i], want+" more ") {
			t.Errorf("%s: %s, notes %q, want %s\n%s", code, record.Receipt.Text(), record.Receipt.Notes, want, out)
		}
	}
}

// descriptors returns what this process has open.
func descriptors(t *testing.T) (all []string) {
	t.Helper()
	needtest.Linux(t, "a list of descriptors")
	for _, e := range must.Get(os.ReadDir("/proc/self/fd"))(t) {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			all = append(all, to)
		}
	}
	return all
}

// Whatever descriptors user code sends, and however, nothing of them stays open, the server does
// not block, and the session lives on.
func TestForeignDescriptorsAreClosed(t *testing.T) {
	inFull(t)
	b := forging(t)
	b.want("x = 1", "completed")
	before := len(descriptors(t))
	for name, test := range map[string]struct {
		code string
		want int // displays
	}{
		"pipe":             {"r, w = os.pipe(); show([('image/png', 10)], [r]); show([('image/png', 10)], [w]); os.close(r); os.close(w)", 0},
		"socket":           {"a, b = socket.socketpair(); show([('image/png', 10)], [a.fileno()]); a.close(); b.close()", 0},
		"directory":        {"d = os.open('/', os.O_RDONLY); show([('image/png', 10)], [d]); os.close(d)", 0},
		"device":           {"d = os.open('/dev/zero', os.O_RDONLY); show([('image/png', 10)], [d]); os.close(d)", 0},
		"terminal":         {"show([('image/png', 10)], [0])", 0},
		"write only":       {"d = os.open('f', os.O_WRONLY | os.O_CREAT); os.write(d, b'x' * 10); show([('image/png', 10)], [d]); os.close(d)", 0},
		"too short":        {"with file(b'123') as f: show([('image/png', 4)], [f.fileno()])", 0},
		"negative":         {"with file(b'123') as f: show([('image/png', -1)], [f.fileno()])", 0},
		"too long":         {"with file(b'') as f: f.truncate(1 << 40); show([('image/png', 1 << 40)], [f.fileno()])", 0},
		"none":             {"show([('image/png', 4)])", 0},
		"spare ones":       {"with file(b'123') as f: show([('text/html', 3)], [f.fileno()] * 12)", 1},
		"with no item":     {"with file(b'123') as f: show([], [f.fileno()] * 12)", 0},
		"of another job":   {"with file(b'123') as f: show([('text/html', 3)], [f.fileno()], id='01M80000000000000000000000')", 0},
		"of no job":        {"with file(b'123') as f: show([('text/html', 3)], [f.fileno()], id=None)", 0},
		"odd fields":       {"with file(b'123') as f: show([('text/html', 3)], [f.fileno()], label=[1], about={})", 0},
		"unknown event":    {"with file(b'123') as f: show([('text/html', 3)], [f.fileno()], event='x')", 0},
		"another event":    {"with file(b'123') as f: show([('text/html', 3)], [f.fileno()], event='raised')", 0},
		"no token":         {"with file(b'123') as f: send(b'display {}\\n', [f.fileno()] * 16)", 0},
		"no line":          {"with file(b'123') as f: [send(b'x', [f.fileno()] * 16) for _ in range(100)]; send(b'\\n')", 0},
		"a line too long":  {"with file(b'123') as f: [send(b'x' * 200000, [f.fileno()]) for _ in range(100)]; send(b'\\n')", 0},
		"many in one":      {"with file(b'123') as f: send(b'x\\n', [f.fileno()] * 253)", 0},
		"before the event": {"with file(b'123') as f, file(b'456') as g: send(b'junk\\n', [f.fileno()]); show([('text/html', 3)], [g.fileno()])", 1},
		"with the end":     {"with file(b'123') as f: send(line([('text/html', 3)])[:-1]); send(b'\\n', [f.fileno()]); show([])", 1},
		"within the line":  {"with file(b'123') as f: l = line([('text/html', 3)]); send(l[:40]); send(l[40:50], [f.fileno()]); send(l[50:]); show([])", 1},
		"two in a row":     {"with file(b'123') as f, file(b'456') as g: send(line([('text/html', 3)]), [f.fileno()]); send(line([('text/html', 3)]), [g.fileno()]); show([])", 2},
	} {
		t.Run(name, func(t *testing.T) {
			j := b.start(test.code)
			if record := jobstest.End(t, j); record.Receipt.Text() != "completed" {
				t.Errorf("%s\n%s", record.Receipt.Text(), jobstest.Output(j))
			}
			all := formats(t, j)
			if len(all) != test.want || len(all) > 0 && !strings.HasPrefix(all[0][0], "text/html:123") && all[0][0] != "text/html:456" {
				t.Errorf("%d displays, want %d: %.60q", len(all), test.want, all)
			}
			if name == "two in a row" && all[1][0] != "text/html:456" {
				t.Errorf("%q", all)
			}
			b.result("x", "1") // also reads what comes after the job
			wantDescriptors(t, before)
		})
	}
	b.want("with file(b'123') as f: [send(b'x', [f.fileno()] * 10) for _ in range(100)]; os.kill(os.getpid(), 9)", "failed (killed by SIGKILL; variables lost)")
	b.want("x = 1", "completed")
	wantDescriptors(t, before)
}

// wantDescriptors waits until no more descriptors are open than before.
func wantDescriptors(t *testing.T, before int) {
	t.Helper()
	polltest.Check(t, func() error {
		if now := descriptors(t); len(now) > before {
			return fmt.Errorf("%d descriptors, %d before: %q", len(now), before, now)
		}
		return nil
	})
}
