//go:build unix

package keyfile

import (
	"encoding/json"
	"reflect"
	"testing"
)

// What decode takes is within its bounds, and can be written and read again.
func FuzzDecode(f *testing.F) {
	const key = "abcdefghijklmnop"
	for _, seed := range []string{
		`{"format":1,"key":"` + key + `","locked":true,"workspace":"/w","places":"/p","engines":{"gpu":{"place":"gpu","greeting":{"protocol":1,"version":"1","machine":"m","boot":"b","start":"s"},"allocation":"812","job":"01ARZ3NDEKTSV4RRFFQ69G5FAV","sessions":[{"kind":"python","name":"main"}]}}}`,
		`{"format":1,"key":"` + key + `","engines":null}`, `{"format":1,"key":"` + key + `","engines":{"":{}}}`, `null`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := decode(text, key)
		if err != nil {
			return
		}
		for name, e := range c.Engines {
			if err := check(name, e); err != nil {
				t.Errorf("%q is read with %v", text, err)
			}
		}
		written, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(written, key)
		if again, err2 := json.Marshal(again); err != nil || err2 != nil || !reflect.DeepEqual(again, written) {
			t.Errorf("%s is read as %s, %v", written, again, err)
		}
	})
}
