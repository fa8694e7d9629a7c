//go:build unix

package keyfile_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/keyfile"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
)

// parts are what this program does instead of tests, as a server of its own. Its arguments are the name of
// the part and a directory.
var parts = map[string]func(dir string) error{
	"serve":   func(dir string) error { return serve(keyfile.TakeOver(dir, "/work", "/places.json")) },
	"servant": servant,
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		if part, ok := parts[os.Args[1]]; ok {
			if err := part(os.Args[2]); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// serve is a server: it prints its key and how many engines it has found, notes an engine, and lives until
// its standard input ends.
func serve(f *keyfile.File, err error) error {
	if err != nil {
		return err
	}
	found := len(f.Engines())
	if err := f.Set("gpu", full); err != nil {
		return err
	}
	fmt.Println(f.Key(), found)
	io.Copy(io.Discard, os.Stdin)
	return nil
}

// servant starts a process that outlives this server, and then serves. The process ends when its standard
// input, which is that of the server, ends.
func servant(dir string) error {
	f, err := keyfile.New(dir, "/work", "/places.json")
	if err != nil {
		return err
	}
	child := exec.Command("/bin/cat")
	child.Stdin = os.Stdin
	if err := child.Start(); err != nil {
		return err
	}
	return serve(f, nil)
}

// full is an engine with all that one can have.
var full = keyfile.Engine{
	Place:      "cluster",
	Greeting:   far.Greeting{Protocol: 1, Version: "1.2.3", Machine: "n2", Boot: "4f1b", Start: "0123456789abcdef", PID: 812},
	Allocation: "812",
	Job:        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
	Sessions:   []keyfile.Session{{Kind: jobs.Python, Name: "main"}, {Kind: jobs.Shell, Name: "main"}},
	Jobs:       []string{"01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW"},
}

// A server is a process of this program.
type server struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	key   string
	found int // the engines that it found in its file
}

// start starts a server and waits until it has its file.
func start(t *testing.T, part, dir string) *server {
	t.Helper()
	s := &server{cmd: exec.Command(must.Get(os.Executable())(t), part, dir)}
	s.stdin = must.Get(s.cmd.StdinPipe())(t)
	stdout := must.Get(s.cmd.StdoutPipe())(t)
	must.Do(t, s.cmd.Start())
	t.Cleanup(s.kill)
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	if _, err := fmt.Sscan(line, &s.key, &s.found); err != nil {
		t.Fatalf("the server says %q", line)
	}
	return s
}

// kill kills the server. It can be called several times.
func (s *server) kill() {
	s.cmd.Process.Kill() // an error: it has ended
	s.cmd.Wait()
}

// takeOver is what a server does first. Its file is released with the test.
func takeOver(t *testing.T, dir, workspace, places string) *keyfile.File {
	t.Helper()
	f := must.Get(keyfile.TakeOver(dir, workspace, places))(t)
	t.Cleanup(func() { f.Close(false) })
	return f
}

// What a server has left at places is read once it has ended, and until another one takes it over. Reading takes
// nothing over, and does not release the lock of a server in the same process.
func TestWhatServersHaveLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "places")
	left := func(why string, want ...keyfile.Left) {
		t.Helper()
		if got := must.Get(keyfile.ReadLeft(dir))(t); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v was left, want %+v", why, got, want)
		}
	}
	left("without a directory")
	s := start(t, "serve", dir)
	left("the server lives")
	s.kill()
	all := keyfile.Left{Workspace: "/work", Places: "/places.json", Engines: map[string]keyfile.Engine{"gpu": full}}
	left("the server was killed", all)
	left("it was read before", all)
	f := takeOver(t, dir, "/work", "/places.json")
	if f.Key() != s.key {
		t.Fatal("the file was not taken over")
	}
	left("another server of this process has it")
	if beside := start(t, "serve", dir); beside.key == s.key {
		t.Error("the lock was released")
	}
	must.Do(t, f.Remove("gpu"))
	must.Do(t, f.Close(false))
	left("nothing is there any more")
}

// A file belongs to the server that made it until that is killed; then to the next one of the same workspace.
func TestFileOfAKilledServerIsTakenOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "places")
	first := start(t, "serve", dir)
	path := filepath.Join(dir, first.key+".json")
	info := must.Get(os.Stat(path))(t)
	if info.Mode().Perm() != 0o600 || must.Get(os.Stat(dir))(t).Mode().Perm() != 0o700 {
		t.Errorf("the file has the mode %v", info.Mode())
	}
	if beside := start(t, "serve", dir); beside.key == first.key || beside.found != 0 {
		t.Error("a second server has the key of the first, which lives")
	}
	first.kill()
	for _, other := range [][2]string{{"/other", "/places.json"}, {"/work", "/other.json"}} {
		if f := takeOver(t, dir, other[0], other[1]); f.Key() == first.key || len(f.Engines()) != 0 {
			t.Errorf("a server of %v has the key of one of another", other)
		}
	}
	later := takeOver(t, dir, "/work", "/places.json")
	if want := map[string]keyfile.Engine{"gpu": full}; later.Key() != first.key || !reflect.DeepEqual(later.Engines(), want) {
		t.Errorf("the key is %s, want %s; the engines are %+v", later.Key(), first.key, later.Engines())
	}
	// This process neither takes its own file, nor does the attempt release it.
	if again := takeOver(t, dir, "/work", "/places.json"); again.Key() == first.key {
		t.Error("a process takes over its own file")
	}
	if other := start(t, "serve", dir); other.key == first.key {
		t.Error("another process takes over the file of one that lives")
	}
	must.Do(t, later.Close(false))
	if other := start(t, "serve", dir); other.key != first.key || other.found != 1 {
		t.Errorf("a released file is not taken over: %+v", other)
	}
}

// A process that a server has started, and that outlives it, does not hold the lock.
func TestChildrenDoNotInheritTheLock(t *testing.T) {
	dir := t.TempDir()
	s := start(t, "servant", dir)
	s.cmd.Process.Kill()
	s.cmd.Process.Wait() // and not Cmd.Wait, which closes the standard input that the child still has
	if f := takeOver(t, dir, "/work", "/places.json"); f.Key() != s.key {
		t.Error("the file of a killed server is not taken over while its child lives")
	}
}

// One of several servers that start at once gets the file.
func TestOneServerTakesOver(t *testing.T) {
	dir := t.TempDir()
	dead := start(t, "serve", dir)
	dead.kill()
	var starts sync.WaitGroup
	servers := make([]*server, 8)
	for i := range servers {
		starts.Go(func() { servers[i] = start(t, "serve", dir) })
	}
	starts.Wait()
	seen := make(map[string]int)
	for _, s := range servers {
		seen[s.key]++
		if (s.key == dead.key) != (s.found == 1) {
			t.Errorf("the server %+v has not found what it should", s)
		}
	}
	if len(seen) != len(servers) || seen[dead.key] != 1 {
		t.Errorf("the keys are %v, and %s should be there once", seen, dead.key)
	}
}

// The file with engines comes before the one without, although that is newer.
func TestFileWithEnginesIsTakenOverFirst(t *testing.T) {
	dir := t.TempDir()
	used := must.Get(keyfile.New(dir, "/w", "/p"))(t)
	must.Do(t, used.Set("gpu", full))
	for range 5 {
		must.Do(t, must.Get(keyfile.New(dir, "/w", "/p"))(t).Close(false))
	}
	must.Do(t, used.Close(false))
	if f := takeOver(t, dir, "/w", "/p"); f.Key() != used.Key() {
		t.Error("a file without engines was taken over first")
	}
}

// files returns the names in a directory.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		names = append(names, e.Name())
	}
	return names
}

func TestCloseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f := must.Get(keyfile.New(dir, "/w", "/p"))(t)
	must.Do(t, f.Set("gpu", full))
	must.Do(t, f.Set("other", keyfile.Engine{Place: "other"}))
	must.Do(t, f.Remove("gpu"))
	must.Do(t, f.Remove("gpu"))
	if got, want := f.Engines(), map[string]keyfile.Engine{"other": {Place: "other"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("the engines are %+v", got)
	}
	if got, want := files(t, dir), []string{f.Key() + ".json", f.Key() + ".lock"}; !reflect.DeepEqual(got, want) {
		t.Errorf("there are %q", got)
	}
	must.Do(t, f.Close(true))
	if got := files(t, dir); len(got) > 0 {
		t.Errorf("it leaves %q", got)
	}
	if err := f.Set("gpu", full); err == nil || len(files(t, dir)) > 0 {
		t.Errorf("a closed file is written: %v", err)
	}
}

// What Engines returns is the caller's.
func TestEnginesAreACopy(t *testing.T) {
	f := must.Get(keyfile.New(t.TempDir(), "/w", "/p"))(t)
	defer f.Close(true)
	mine := []keyfile.Session{{Kind: jobs.Python, Name: "main"}}
	must.Do(t, f.Set("gpu", keyfile.Engine{Place: "gpu", Sessions: mine}))
	mine[0].Name = "changed"
	f.Engines()["gpu"].Sessions[0].Name = "changed"
	delete(f.Engines(), "gpu")
	if got := f.Engines()["gpu"].Sessions; len(got) != 1 || got[0].Name != "main" {
		t.Errorf("the sessions are %+v", got)
	}
}

// zeroFields returns which fields of a value are zero.
func zeroFields(v reflect.Value, path string) (zero []string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			zero = append(zero, zeroFields(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			zero = append(zero, zeroFields(v.Index(i), fmt.Sprint(path, "[", i, "]"))...)
		}
	}
	if v.IsZero() {
		zero = append(zero, path)
	}
	return zero
}

// Every field is in the file; TestFileOfAKilledServerIsTakenOver reads it again. A field that is new must be
// in full.
func TestEveryFieldIsWritten(t *testing.T) {
	if zero := zeroFields(reflect.ValueOf(full), "Engine"); len(zero) > 0 {
		t.Fatalf("the engine of the tests has no %q: add them", zero)
	}
	raw := must.Get(json.Marshal(full))(t)
	var back keyfile.Engine
	must.Do(t, json.Unmarshal(raw, &back))
	if !reflect.DeepEqual(back, full) {
		t.Errorf("%s is read as %+v", raw, back)
	}
}

// A reader never sees half a file, and changes by several goroutines are all kept.
func TestConcurrentChanges(t *testing.T) {
	dir := t.TempDir()
	f := must.Get(keyfile.New(dir, "/w", "/p"))(t)
	defer f.Close(true)
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for n := range 20 {
				name := fmt.Sprint("engine-", i, "-", n)
				if err := f.Set(name, full); err != nil {
					t.Error(err)
				}
				if n%2 == 1 {
					if err := f.Remove(name); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { // owned by the test; ends with the writers
		writers.Wait()
		close(done)
	}()
	for reads := 0; ; reads++ {
		var c struct{ Engines map[string]keyfile.Engine }
		if raw := must.Get(os.ReadFile(filepath.Join(dir, f.Key()+".json")))(t); json.Unmarshal(raw, &c) != nil {
			t.Fatalf("half a file: %q", raw)
		}
		select {
		case <-done:
			if len(f.Engines()) != 80 {
				t.Errorf("%d engines", len(f.Engines()))
			}
			return
		default:
		}
	}
}

// What can't be in a file is refused, and the file stays as it was.
func TestBadEngineIsRefused(t *testing.T) {
	dir := t.TempDir()
	f := must.Get(keyfile.New(dir, "/w", "/p"))(t)
	defer f.Close(true)
	must.Do(t, f.Set("gpu", full))
	before := must.Get(os.ReadFile(filepath.Join(dir, f.Key()+".json")))(t)
	long := strings.Repeat("x", 257)
	for name, e := range bad {
		if err := f.Set("gpu", e); err == nil || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", long, "a\nb"} {
		if err := f.Set(name, full); err == nil {
			t.Errorf("the name %q is taken", name)
		}
	}
	after := must.Get(os.ReadFile(filepath.Join(dir, f.Key()+".json")))(t)
	if string(before) != string(after) || len(f.Engines()) != 1 {
		t.Errorf("the file has changed: %s", after)
	}
}

// bad are engines that no file can hold.
var bad = map[string]keyfile.Engine{
	"no place":                {Allocation: "1"},
	"a long place":            {Place: strings.Repeat("x", 257)},
	"escapes":                 {Place: "gpu\x1b[2J"},
	"an option":               {Place: "gpu", Allocation: "--user=me"},
	"an allocation with more": {Place: "gpu", Allocation: "1 --user=me"},
	"an allocation of lines":  {Place: "gpu", Allocation: "1\n2"},
	"a machine of lines":      {Place: "gpu", Greeting: far.Greeting{Machine: "a\nb"}},
	"a long boot":             {Place: "gpu", Greeting: far.Greeting{Boot: strings.Repeat("b", 1000)}},
	"a start of lines":        {Place: "gpu", Greeting: far.Greeting{Start: "a\x00"}},
	"a version of lines":      {Place: "gpu", Greeting: far.Greeting{Version: "a\r"}},
	"not the id of a job":     {Place: "gpu", Job: "../../etc/passwd"},
	"an id in lower case":     {Place: "gpu", Job: strings.ToLower(full.Job)},
	"a session of packages":   {Place: "gpu", Sessions: []keyfile.Session{{Kind: jobs.Package, Name: "a"}}},
	"a session without name":  {Place: "gpu", Sessions: []keyfile.Session{{Kind: jobs.Python}}},
	"a session of lines":      {Place: "gpu", Sessions: []keyfile.Session{{Kind: jobs.Python, Name: "a\nb"}}},
	"too many sessions":       {Place: "gpu", Sessions: slices.Repeat(full.Sessions[:1], 1001)},
}

// Jobs can have written the file. What is no file of ours is left alone, whatever it is, and a new key is made.
func TestHostileFileIsNotTakenOver(t *testing.T) {
	good := func(e keyfile.Engine, key string) string {
		return string(must.Get(json.Marshal(map[string]any{
			"format": 1, "key": key, "locked": true, "workspace": "/w", "places": "/p", "engines": map[string]keyfile.Engine{"gpu": e}}))(t))
	}
	const key = "abcdefghijklmnop"
	type spoil struct {
		key   string
		spoil func(t *testing.T, path string)
	}
	text := func(text string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { must.Do(t, os.WriteFile(path, []byte(text), 0o600)) }
	}
	cases := map[string]spoil{
		"empty":                 {key, text("")},
		"null":                  {key, text("null")},
		"nested":                {key, text(strings.Repeat(`{"engines":`, 100_000))},
		"wrong types":           {key, text(`{"format":"1"}`)},
		"another format":        {key, text(strings.Replace(good(full, key), `"format":1`, `"format":2`, 1))},
		"without locks":         {key, text(strings.Replace(good(full, key), `"locked":true`, `"locked":false`, 1))},
		"another key":           {key, text(good(full, "bcdefghijklmnopq"))},
		"a name that is no key": {"ABCDEFGHIJKLMNOP", text(good(full, "ABCDEFGHIJKLMNOP"))},
		"too large":             {key, text(good(full, key) + strings.Repeat(" ", 4<<20))},
		"a hole of eight TiB":   {key, func(t *testing.T, path string) { text("")(t, path); os.Truncate(path, 8<<40) }},
		"a FIFO":                {key, func(t *testing.T, path string) { must.Do(t, syscall.Mkfifo(path, 0o600)) }},
		"a directory":           {key, func(t *testing.T, path string) { must.Do(t, os.Mkdir(path, 0o700)) }},
		"a link": {key, func(t *testing.T, path string) {
			text(good(full, key))(t, path+"2")
			must.Do(t, os.Symlink(path+"2", path))
		}},
		"a link to a device": {key, func(t *testing.T, path string) { must.Do(t, os.Symlink("/dev/zero", path)) }},
		"a lock that is missing": {key, func(t *testing.T, path string) {
			text(good(full, key))(t, path)
			os.Remove(path[:len(path)-4] + "lock")
		}},
		"a lock that is a FIFO": {key, func(t *testing.T, path string) {
			text(good(full, key))(t, path)
			lock := path[:len(path)-4] + "lock"
			must.Do(t, os.Remove(lock))
			must.Do(t, syscall.Mkfifo(lock, 0o600))
		}},
	}
	for name, e := range bad {
		cases[name] = spoil{key, text(good(e, key))}
	}
	try := func(t *testing.T, s spoil) *keyfile.File {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, s.key+".lock"), nil, 0o600))
		s.spoil(t, filepath.Join(dir, s.key+".json"))
		f := must.Get(keyfile.TakeOver(dir, "/w", "/p"))(t)
		must.Do(t, f.Set("new", keyfile.Engine{Place: "new"}))
		must.Do(t, f.Close(false)) // its key can be taken again
		return f
	}
	if f := try(t, spoil{key, text(good(full, key))}); f.Key() != key || len(f.Engines()) != 2 {
		t.Fatal("what is right is not taken over")
	}
	for name, s := range cases {
		t.Run(name, func(t *testing.T) {
			if f := try(t, s); f.Key() == s.key || len(f.Engines()) != 1 {
				t.Errorf("it is taken over: %+v", f.Engines())
			}
		})
	}
	noEngines := strings.Replace(good(full, key), `"engines":{`, `"engines":null,"x":{`, 1)
	if f := try(t, spoil{key, text(noEngines)}); f.Key() != key || len(f.Engines()) != 1 {
		t.Errorf("a file with null for its engines is not taken over, or has %+v", f.Engines())
	}
}

func TestDirectoryThatOthersCanWriteIsRefused(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Chmod(dir, 0o770))
	for name, open := range map[string]func(dir, workspace, places string) (*keyfile.File, error){"New": keyfile.New, "TakeOver": keyfile.TakeOver} {
		if _, err := open(dir, "/w", "/p"); err == nil || !strings.Contains(err.Error(), "take that away with chmod go-w, or set REPL_STATE_DIR") {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := open("/dev/null/places", "/w", "/p"); err == nil || !strings.Contains(err.Error(), "set REPL_STATE_DIR") {
			t.Errorf("%s below a file: got %v", name, err)
		}
	}
	if names := files(t, dir); len(names) > 0 {
		t.Errorf("it leaves %q", names)
	}
}

// A directory that vanishes costs the next server its engines, and this one an error.
func TestDirectoryThatVanishes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "places")
	f := must.Get(keyfile.New(dir, "/w", "/p"))(t)
	must.Do(t, os.RemoveAll(dir))
	err := f.Set("gpu", full)
	if err == nil || !strings.Contains(err.Error(), "a later server will not find this change") || len(f.Engines()) != 1 {
		t.Errorf("got %v, %v", err, f.Engines())
	}
	if err := f.Close(false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}
}

func Example() {
	dir, _ := os.MkdirTemp("", "keys")
	defer os.RemoveAll(dir)
	f, err := keyfile.TakeOver(dir, "/home/me/project", "/home/me/places.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(f.Key()), len(f.Engines()))
	fmt.Println(f.Set("gpu", keyfile.Engine{Place: "gpu"}))
	f.Close(false) // as a kill does

	f, err = keyfile.TakeOver(dir, "/home/me/project", "/home/me/places.json")
	fmt.Println(f.Engines()["gpu"].Place, err)
	f.Close(true)
	// Output:
	// 16 0
	// <nil>
	// gpu <nil>
}
