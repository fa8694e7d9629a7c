package pkgmgr

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestChanges(t *testing.T) {
	w := newWorld(t)
	s := site{Dirs: []string{w.path("site")}}
	put := func(dist, record string) { // as a file of its own, as installers do
		w.write("site/"+dist+".dist-info/METADATA", "Metadata-Version: 2.1\nName: "+record+"\n\nName: no\n", 0o666)
		os.Remove(w.path("site/" + dist + ".dist-info/RECORD"))
		w.write("site/"+dist+".dist-info/RECORD", record, 0o666)
	}
	remove := func(dist string) {
		if err := os.RemoveAll(w.path("site/" + dist + ".dist-info")); err != nil {
			t.Fatal(err)
		}
	}
	put("stays-1.0", "stays")
	put("goes-1.0", "goes")
	put("again-1.0", "again")
	put("some_thing-1.0", "Some.Thing")
	w.write("site/old.pth", "x", 0o666)
	before := s.read()
	if ch := s.read().since(before); !ch.none() {
		t.Errorf("nothing was done: %+v", ch)
	}
	remove("goes-1.0")
	remove("some_thing-1.0")
	put("some_thing-2.0", "some-thing")
	put("again-1.0", "again")
	put("new-1!2.0+x", "new")
	w.write("site/half-1.0.dist-info/METADATA", "", 0o666) // without a RECORD
	w.write("site/new.pth", "x", 0o666)
	want := Changes{
		Installed: []Package{{Name: "again", Version: "1.0", Before: "1.0"}, {Name: "new", Version: "1!2.0+x"}, {Name: "some-thing", Version: "2.0", Before: "1.0"}},
		removed:   []Package{{Name: "goes", Version: "1.0"}},
		paths:     []string{w.path("site/new.pth")},
	}
	if diff := cmp.Diff(want, s.read().since(before), cmp.AllowUnexported(Changes{}), cmpopts.IgnoreUnexported(Package{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestModules(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x-1.dist-info")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	record := `one.py,sha256=x,3
pkg/__init__.py,,
pkg/deep/__init__.py,,
pkg/deep/mod.py,,
"pkg/odd,name.py",,
ns/cloud/__init__.py,,
ns/plain.py,,
fast.cpython-311-x86_64-linux-gnu.so,,
__pycache__/one.cpython-311.pyc,,
../../../bin/x,,
../../share/x.py,,
x-1.dist-info/METADATA,,
`
	if err := os.WriteFile(filepath.Join(dir, "RECORD"), []byte(record), 0o666); err != nil {
		t.Fatal(err)
	}
	want := []string{"fast", "ns.cloud", "ns.plain", "one", "pkg"}
	if diff := cmp.Diff(want, Package{dir: dir}.Modules()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
