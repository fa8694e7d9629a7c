package jobs_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// fill sets every exported field below v, so that a field that JSON leaves out is missing after it.
func fill(v reflect.Value, path string) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 11, 24, 8, 0, 0, len(path), time.FixedZone("", 3600))))
	case v.Type() == reflect.TypeFor[json.RawMessage](), v.Kind() == reflect.Map:
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case v.Kind() == reflect.Slice:
		if strings.Count(path, "Causes")+strings.Count(path, "Members") > 1 {
			return // exceptions nest
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), path+"."+f.Name)
			}
		}
	case v.Kind() == reflect.String:
		v.SetString(path)
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(int64(len(path)))
	default:
		panic(path + " is of a kind that this test does not know: " + v.Type().String())
	}
}

// Every field of a record is in its JSON. Without this test, one that is added with a wrong tag
// would be lost for jobs of an earlier run.
func TestRecordReadsBack(t *testing.T) {
	var record jobs.Record
	if err := jobstest.ReadsBack(record); err != nil {
		t.Errorf("the zero record: %v", err)
	}
	fill(reflect.ValueOf(&record).Elem(), "Record")
	if err := jobstest.ReadsBack(record); err != nil {
		t.Error(err)
	}
	lossy := record
	lossy.Title = "\xff" // shows that ReadsBack can fail
	if jobstest.ReadsBack(lossy) == nil {
		t.Error("bytes that are no UTF-8 read back as they were")
	}
}

// Fields of a newer version are written back, beside those that this version changes.
func TestRecordKeepsUnknownFields(t *testing.T) {
	const newer = `{"version":2,"id":"ID","kind":"shell","title":"make","host":{"name":"b","ports":[1]},
		"status":"failed","receipt":{"end":"exited","exit_code":1,"rusage":{"user":1.5}},"created":"2026-11-24T08:00:00Z","output":{"cursor":0,"final":0}}`
	var record jobs.Record
	must.Do(t, json.Unmarshal([]byte(newer), &record))
	if record.Version != 2 || record.Receipt.Code != 1 || record.Kind != jobs.Shell {
		t.Errorf("%+v", record)
	}
	record.Receipt.Notes = []string{"n"}
	b := must.Get(json.Marshal(record))(t)
	var got, want map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	must.Do(t, json.Unmarshal([]byte(newer), &want))
	want["receipt"].(map[string]any)["notes"] = []any{"n"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestRecordRefusesOtherJSON(t *testing.T) {
	for _, text := range []string{``, `null x`, `[]`, `"x"`, `{"id":1}`, `{"receipt":[]}`, `{"id":"x"`} {
		if err := json.Unmarshal([]byte(text), new(jobs.Record)); err == nil {
			t.Errorf("%s is taken for a record", text)
		}
	}
}

// A record keeps the first 16 KiB of the code, in whole characters, unless its title is all of it.
func TestCodeIsKept(t *testing.T) {
	r := jobstest.Registry(t)
	long := strings.Repeat("x", 16<<10-1)
	for _, c := range []struct{ title, code, kept string }{
		{"ls", "ls", ""},
		{"ls", "\nls \n", ""},
		{"ls", "ls\npwd", "ls\npwd"},
		{"long", long + "é", long},
		{"long", long + "xé", long + "x"},
		{"none", "", ""},
	} {
		j := jobstest.Start(t, r, jobs.Spec{Title: c.title, Code: c.code}, returns{})
		bytes := len(c.code)
		if c.kept == "" {
			bytes = 0
		}
		if got := jobstest.End(t, j); got.Code != c.kept || got.CodeBytes != bytes {
			t.Errorf("of %.10q, %d bytes: kept %d of %d", c.code, len(c.code), len(got.Code), got.CodeBytes)
		}
	}
}

// returns ends at once.
type returns struct{}

func (returns) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
}
