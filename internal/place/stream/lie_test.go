package stream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
)

const testID = "01JD0000000000000000000000"

// wire is what an engine sends.
type wire struct{ bytes.Buffer }

func (w *wire) frame(kind byte, body []byte) *wire {
	w.WriteByte(kind)
	w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(body))))
	w.Write(body)
	return w
}

func (w *wire) json(kind byte, v any) *wire {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return w.frame(kind, b)
}

func (w *wire) output(s output.Stream, at int64, text string) *wire {
	body := append([]byte{byte(s)}, binary.BigEndian.AppendUint64(nil, uint64(at))...)
	return w.frame(outputFrame, append(body, text...))
}

// record sends the record of a running job whose output ends at a cursor, changed by change.
func (w *wire) record(end int64, change func(*jobs.Record)) *wire {
	r := runningRecord(end)
	if change != nil {
		change(&r)
	}
	return w.json(recordFrame, recordBody{time.Unix(1e9, 0).UTC(), r})
}

func (w *wire) display(change func(*displayHead), forms ...string) *wire {
	d := jobs.Display{Number: 1, Title: "figure 1"}
	h := displayHead{Display: d}
	for _, f := range forms {
		h.Display.Forms = append(h.Display.Forms, jobs.Form{MIME: "text/html", Size: len(f)})
		h.Sizes = append(h.Sizes, len(f))
	}
	if change != nil {
		change(&h)
	}
	w.json(displayFrame, h)
	for _, f := range forms {
		w.WriteString(f)
	}
	return w
}

func runningRecord(end int64) jobs.Record {
	return jobs.Record{ID: testID, Spec: jobs.Spec{Kind: jobs.Shell, Title: "make"}, Status: jobs.Running, Created: time.Unix(1e9, 0).UTC(), Output: output.Stat{End: end, Final: -1}}
}

func completed(r *jobs.Record) {
	r.Status, r.Receipt = jobs.Completed, jobs.Receipt{End: jobs.Returned}
}

// all reads a life to its end.
func all(r *Reader) (fs []Frame, err error) {
	for {
		f, err := r.Next()
		if err != nil {
			return fs, err
		}
		f.Data = bytes.Clone(f.Data)
		fs = append(fs, f)
	}
}

// Each rule that an engine can break ends its link with a sentence.
func TestLiesAreRefused(t *testing.T) {
	big := func(n int) string { return strings.Repeat("x", n) }
	commas := []byte(`{"record":{"id":"` + testID + `","listening":[` + strings.Repeat("{},", maxParts+1) + `{}]}}`)
	for name, c := range map[string]struct {
		sent *wire
		says string
	}{
		"type of frame":         {new(wire).frame('x', nil), "unknown type, 'x'"},
		"length of output":      {new(wire).output(0, 10, big(maxOutput+1)), "the most is"},
		"length of a record":    {new(wire).frame(recordFrame, make([]byte, maxRecord+1)), "the most is"},
		"length of a skip":      {new(wire).frame(skipFrame, make([]byte, maxHead+1)), "the most is"},
		"length of a display":   {new(wire).frame(displayFrame, make([]byte, maxHead+1)), "the most is"},
		"alive with a body":     {new(wire).frame(aliveFrame, []byte("x")), "the most is 0"},
		"no output":             {new(wire).output(0, 10, ""), "no byte"},
		"stream":                {new(wire).output(output.Display+1, 10, "x"), "unknown stream, 5"},
		"output twice":          {new(wire).output(0, 10, "abc").output(0, 12, "c"), "the one at 13 comes next"},
		"output missing":        {new(wire).output(0, 11, "abc"), "the one at 10 comes next"},
		"negative cursor":       {new(wire).output(0, -1, "abc"), "the one at 10 comes next"},
		"JSON":                  {new(wire).frame(recordFrame, []byte("{\x1b")), "can't be read"},
		"parts":                 {new(wire).frame(recordFrame, commas), "parts"},
		"another job":           {new(wire).record(10, func(r *jobs.Record) { r.ID = "\x1b[2J" }), `of another job, "\\x1b[2J"`},
		"status":                {new(wire).record(10, func(r *jobs.Record) { r.Status = "lost" }), `unknown status, "lost"`},
		"no status":             {new(wire).record(10, func(r *jobs.Record) { r.Status = "" }), "unknown status"},
		"kind":                  {new(wire).record(10, func(r *jobs.Record) { r.Kind = "x" }), `unknown kind of job, "x"`},
		"asks nothing":          {new(wire).record(10, func(r *jobs.Record) { r.Status = jobs.WaitingInput }), "contradicts"},
		"asks while it runs":    {new(wire).record(10, func(r *jobs.Record) { r.Question = new(jobs.Question) }), "contradicts"},
		"receipt":               {new(wire).record(10, func(r *jobs.Record) { r.Status = jobs.Completed }), "receipt contradicts"},
		"an end taken back":     {new(wire).record(10, completed).record(10, nil), "status running of a job that was completed"},
		"end beyond all":        {new(wire).record(maxCursor+1, nil), "output up to"},
		"end taken back":        {new(wire).record(11, nil).record(10, nil), "it was 11 before"},
		"negative end":          {new(wire).record(-1, nil), "output up to -1"},
		"final beyond the end":  {new(wire).record(10, func(r *jobs.Record) { r.Output.Final = 11 }), "output up to"},
		"replaced beyond":       {new(wire).record(10, func(r *jobs.Record) { r.Cleared = 11 }), "replaced"},
		"replaced taken back":   {new(wire).record(10, func(r *jobs.Record) { r.Cleared = 5 }).record(10, nil), "replaced"},
		"year":                  {new(wire).record(10, func(r *jobs.Record) { r.Started = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }), "the time 9999-"},
		"skip without a record": {new(wire).json(skipFrame, Skip{To: 20}), "it ends at 0"},
		"skip beyond the end":   {new(wire).record(20, nil).json(skipFrame, Skip{To: 21}), "it ends at 20"},
		"skip backwards":        {new(wire).record(20, nil).json(skipFrame, Skip{To: 9}), "skipped the output from cursor 10 to 9"},
		"skip nothing":          {new(wire).record(20, nil).json(skipFrame, Skip{To: 10}), "skipped the output from cursor 10 to 10"},
		"skip causes":           {new(wire).record(20, nil).json(skipFrame, Skip{To: 20, Why: output.Loss{Cap: 6, Limit: 5}}), "causes"},
		"skip negative causes":  {new(wire).record(20, nil).json(skipFrame, Skip{To: 20, Why: output.Loss{Disk: -1}}), "causes"},
		"display again":         {new(wire).display(nil, "a").display(nil, "a"), "display 1 after display 1"},
		"display number":        {new(wire).display(func(h *displayHead) { h.Display.Number = maxNumber + 1 }, "a"), "after display 0"},
		"display without forms": {new(wire).display(nil), "a display of 0 forms"},
		"too many forms":        {new(wire).display(nil, strings.Split(big(maxForms+1), "")...), "a display of 17 forms"},
		"other sizes":           {new(wire).display(func(h *displayHead) { h.Sizes = append(h.Sizes, 1) }, "a"), "with the bytes of 2"},
		"negative size":         {new(wire).display(func(h *displayHead) { h.Sizes[0] = -2 }, "a"), "a form of -2 bytes"},
		"form too large":        {new(wire).display(func(h *displayHead) { h.Sizes[0] = maxDisplay + 1 }, "a"), "a form of"},
		"forms too large":       {new(wire).display(func(h *displayHead) { h.Sizes[0], h.Sizes[1] = maxDisplay, 1 }, "a", "b"), "the most is"},
		"line before itself":    {new(wire).display(func(h *displayHead) { h.Display.Line = output.Range{From: 20, To: 19} }, "a"), "line is at 20 to 19"},
		"line too long":         {new(wire).display(func(h *displayHead) { h.Display.Line = output.Range{From: 20, To: 20 + maxLine + 1} }, "a"), "line is at"},
		"line beyond all":       {new(wire).display(func(h *displayHead) { h.Display.Line = output.Range{From: maxCursor, To: maxCursor + 1} }, "a"), "line is at"},
		"negative line":         {new(wire).display(func(h *displayHead) { h.Display.Line = output.Range{From: -1} }, "a"), "line is at"},
		"display too late":      {new(wire).output(0, 10, "ab").display(func(h *displayHead) { h.Display.Line = output.Range{From: 11, To: 12} }, "a"), "after the output before 12"},
		"end without a record":  {new(wire).frame(endFrame, nil), "without a record"},
		"end of a running job":  {new(wire).record(10, nil).frame(endFrame, nil), "without a record"},
		"end before its output": {new(wire).record(12, completed).output(0, 10, "a").frame(endFrame, nil), "without a record"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := all(NewReader(&c.sent.Buffer, testID, Position{Cursor: 10}))
			if _, lies := errors.AsType[*Error](err); !lies || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, and should say %q", err, c.says)
			}
			if strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("a control character is in %q", err)
			}
		})
	}
}

// An engine that shows without end fills no disk here.
func TestDisplaysAreBounded(t *testing.T) {
	var w wire
	w.record(10, nil)
	for i := range maxDisplays + 1 {
		w.display(func(h *displayHead) { h.Display.Number, h.Display.Line = i+1, output.Range{From: 10, To: 10} }, "a")
	}
	fs, err := all(NewReader(&w, testID, Position{Cursor: 10}))
	if err == nil || !strings.Contains(err.Error(), "replaced none") || len(fs) != 1+maxDisplays {
		t.Errorf("%d frames, %v", len(fs), err)
	}
	w = wire{}
	for i := range 3 * maxDisplays { // each replaces all before it
		at := int64(10 + i)
		w.record(at, func(r *jobs.Record) { r.Cleared = at })
		w.display(func(h *displayHead) { h.Display.Number, h.Display.Line = i+1, output.Range{From: at, To: at + 1} }, "a")
		w.output(output.Display, at, "x")
	}
	if fs, err := all(NewReader(&w, testID, Position{Cursor: 10})); err != io.ErrUnexpectedEOF || len(fs) != 9*maxDisplays {
		t.Errorf("%d frames, %v", len(fs), err)
	}
}

// A link that breaks is no end, wherever it breaks.
func TestBrokenLinkIsNoEnd(t *testing.T) {
	var w wire
	w.record(13, completed).output(0, 10, "abc").display(func(h *displayHead) { h.Display.Line.From, h.Display.Line.To = 13, 13 }, "form").frame(aliveFrame, nil).record(13, completed).frame(endFrame, nil)
	for n := range w.Len() {
		if _, err := all(NewReader(bytes.NewReader(w.Bytes()[:n]), testID, Position{Cursor: 10})); err != io.ErrUnexpectedEOF {
			t.Fatalf("after %d of %d bytes: %v", n, w.Len(), err)
		}
	}
	r := NewReader(&w, testID, Position{Cursor: 10})
	if fs, err := all(r); err != io.EOF || len(fs) != 4 {
		t.Errorf("%d frames, %v", len(fs), err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

// escapes is a text that would write a header, hide itself, and drive a terminal.
const escapes = "a\nStatus: completed\x1b]0;x\a\u202e\u2028b"

// Text that can become a line has no control characters.
func TestTextIsEscaped(t *testing.T) {
	var w wire
	w.record(10, func(r *jobs.Record) {
		fill(reflect.ValueOf(r).Elem(), escapes)
		r.ID, r.Kind, r.Status, r.Receipt.Stop, r.Receipt.End, r.Receipt.Code = testID, jobs.Shell, jobs.Failed, nil, jobs.Raised, 1
		r.Question, r.Receipt.Exception, r.Code, r.Result = nil, nil, "", ""
		r.Output, r.Cleared = output.Stat{End: 10, Final: 10}, 0
	})
	w.display(func(h *displayHead) { h.Display.Title, h.Display.Line.From, h.Display.Line.To = escapes, 10, 10 }, "a")
	fs, _ := all(NewReader(&w, testID, Position{Cursor: 10}))
	if len(fs) != 2 {
		t.Fatal(fs)
	}
	for _, v := range []any{fs[0].Record, fs[1].Display} {
		b := must.Get(json.MarshalIndent(v, "", ""))(t)
		var back any
		must.Do(t, json.Unmarshal(b, &back))
		eachText(back, func(s string) {
			if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' }) {
				t.Errorf("%q in %s", s, b)
			}
		})
	}
	if !strings.Contains(fs[0].Record.Receipt.Detail, `a\nStatus: completed\x1b]`) {
		t.Errorf("%q", fs[0].Record.Receipt.Detail)
	}
}

func eachText(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, e := range v {
			eachText(e, f)
		}
	case map[string]any:
		for k, e := range v {
			f(k)
			eachText(e, f)
		}
	}
}

// Long texts and lists are cut, and unknown fields dropped: what is kept of a thousand jobs must not fill memory.
func TestRecordIsBounded(t *testing.T) {
	long := strings.Repeat("é", 1<<18)
	var w wire
	w.record(10, func(r *jobs.Record) {
		completed(r)
		r.Code, r.Result, r.Title, r.Receipt.Detail = long[:1<<15], long[:1<<18], long[:1<<13], long[:1<<13]
		r.Receipt.Notes = make([]string, 2*maxList)
		r.Unknown = map[string]json.RawMessage{"later": []byte("1")}
		r.Receipt.Unknown = r.Unknown
	})
	f, err := NewReader(&w, testID, Position{Cursor: 10}).Next()
	must.Do(t, err)
	r := f.Record
	if n := []int{len(r.Code), len(r.Result), len(r.Receipt.Notes), cap(r.Receipt.Notes)}; !reflect.DeepEqual(n, []int{maxCode, maxResult, maxList, maxList}) {
		t.Error(n)
	}
	if n := max(len(r.Title), len(r.Receipt.Detail)); n > 2*maxText+10 {
		t.Error(n)
	}
	if r.Unknown != nil || r.Receipt.Unknown != nil {
		t.Error(r.Unknown, r.Receipt.Unknown)
	}
}

// What is said to be a picture is one, because a client can refuse a whole conversation otherwise. A type that no job
// here has is only saved.
func TestFormsAreWhatTheyAreSaidToBe(t *testing.T) {
	var w wire
	number := 0
	show := func(mime string) *wire {
		return w.display(func(h *displayHead) {
			number++
			h.Display.Number, h.Display.Picture, h.Display.Forms[0].MIME, h.Display.Forms[0].Attachment = number, true, mime, 7
			h.Display.Line = output.Range{From: 10, To: 10}
		}, "no picture")
	}
	for _, mime := range []string{"image/png", "text/html", "image/svg+xml", "application/x-msdownload", "text/html\r\nX: y", "x"} {
		show(mime)
	}
	fs, err := all(NewReader(&w, testID, Position{Cursor: 10}))
	var got []string
	for _, f := range fs {
		if f.Display.Picture || f.Display.Forms[0].Attachment != 0 || f.Display.Forms[0].Size != 10 {
			t.Errorf("%+v", f.Display)
		}
		got = append(got, f.Display.Forms[0].MIME)
	}
	const saved = "application/octet-stream"
	if d := cmp.Diff([]string{"image/png", "text/html", "image/svg+xml", saved, saved, saved}, got); d != "" {
		t.Error(d, err)
	}
}

// fill sets each exported field below v, and each text to text.
func fill(v reflect.Value, text string) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 11, 24, 8, 0, 0, 0, time.UTC)))
	case v.Kind() == reflect.Map:
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case v.Kind() == reflect.Slice:
		if v.Type().Elem() == reflect.TypeFor[jobs.Exception]() {
			return // exceptions nest
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text)
			}
		}
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(7)
	default:
		panic("a kind that this test does not know: " + v.Type().String())
	}
}

// Each field of a record and of a display comes as it was sent.
func TestFieldsComeAsTheyWere(t *testing.T) {
	for _, status := range []jobs.Status{jobs.WaitingInput, jobs.Completed} {
		var r jobs.Record
		fill(reflect.ValueOf(&r).Elem(), "text")
		r.ID, r.Kind, r.Status = testID, jobs.Python, status
		r.Output.Gaps = []output.Range{{From: 1, To: 2}}
		if status == jobs.WaitingInput {
			r.Receipt = jobs.Receipt{}
		} else {
			r.Question, r.Receipt.Stop, r.Receipt.End = nil, nil, jobs.Returned
		}
		var b bytes.Buffer
		w := &writer{now: r, buffers: &buffers{out: bufio.NewWriter(&b)}}
		w.record()
		must.Do(t, w.out.Flush())
		f, err := NewReader(&b, testID, Position{Cursor: 3}).Next()
		must.Do(t, err)
		if d := cmp.Diff(&r, f.Record, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(jobs.Stop{})); d != "" || f.Behind != 4 || time.Since(f.Now) > time.Hour {
			t.Errorf("%s, behind %d, at %v", d, f.Behind, f.Now)
		}
	}
	var d jobs.Display
	fill(reflect.ValueOf(&d).Elem(), "text")
	d.Forms[0] = jobs.Form{MIME: "image/png", Size: len(png)}
	var w wire
	w.json(displayFrame, displayHead{d, []int{len(png)}}).WriteString(png)
	f, err := NewReader(&w, testID, Position{}).Next()
	must.Do(t, err)
	if diff := cmp.Diff(&d, f.Display); diff != "" || string(f.Forms[0]) != png {
		t.Errorf("%s\n%q", diff, f.Forms)
	}
}

// png is the picture of one pixel.
const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"

// randomWire is frames of which each is right, or a byte of it is not.
func randomWire(rng *rand.Rand, frames int) *wire {
	var w wire
	at, number := int64(0), 0
	for range frames {
		from := w.Len()
		switch rng.IntN(6) {
		case 0:
			w.record(at+rng.Int64N(100), nil)
		case 1:
			w.json(skipFrame, Skip{To: at + rng.Int64N(20)})
		case 2:
			number++
			w.display(func(h *displayHead) { h.Display.Number, h.Display.Line = number, output.Range{From: at, To: at} }, "ab", "c")
		case 3:
			w.frame(aliveFrame, nil)
		default:
			text := strings.Repeat("x", 1+rng.IntN(50))
			w.output(output.Stream(rng.IntN(5)), at, text)
			at += int64(len(text))
		}
		if rng.IntN(3) == 0 {
			b := w.Bytes()[from:]
			b[rng.IntN(len(b))] ^= byte(1 << rng.IntN(8))
		}
	}
	return &w
}

// Whatever comes, the reader returns what its rules allow, or an error.
func TestRandomFrames(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range 1000 {
		if err := obeysRules(randomWire(rng, 1+rng.IntN(20)).Bytes()); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, i, err)
		}
	}
}

// obeysRules reads frames and returns an error if a rule does not hold of what the reader returns.
func obeysRules(b []byte) error {
	cursor, end, number := int64(0), int64(0), 0
	fs, err := all(NewReader(bytes.NewReader(b), testID, Position{}))
	if err == nil {
		return errors.New("there is no end")
	}
	for _, f := range fs {
		switch {
		case f.Record != nil:
			if f.Record.ID != testID || f.Record.Output.End < end || f.Behind != max(0, f.Record.Output.End-cursor) {
				return fmt.Errorf("%+v", f)
			}
			end = f.Record.Output.End
		case f.Display != nil:
			if f.Display.Number <= number || len(f.Forms) != len(f.Display.Forms) || f.Display.Line.From < cursor {
				return fmt.Errorf("%+v", f)
			}
			number = f.Display.Number
		case f.Skip != nil:
			if f.Skip.To <= cursor || f.Skip.To > end {
				return fmt.Errorf("%+v", f)
			}
			cursor = f.Skip.To
		default:
			if len(f.Data) == 0 || len(f.Data) > maxOutput || f.Stream > output.Display {
				return fmt.Errorf("%+v", f)
			}
			cursor += int64(len(f.Data))
		}
	}
	return nil
}

func FuzzReader(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		f.Add(randomWire(rng, 10).Bytes())
	}
	f.Add(new(wire).record(0, completed).frame(endFrame, nil).Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := obeysRules(b); err != nil {
			t.Error(err)
		}
	})
}
