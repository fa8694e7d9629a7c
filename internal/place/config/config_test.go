//go:build unix

package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/place/config"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// world is a directory for a file of places, beside an empty workspace and a program that is on the PATH.
type world struct {
	dir, workspace, bin string
}

func newWorld(t *testing.T) world {
	t.Helper()
	top := t.TempDir()
	w := world{filepath.Join(top, "conf"), filepath.Join(top, "work"), filepath.Join(top, "bin")}
	for _, dir := range []string{w.dir, w.workspace, w.bin} {
		must.Do(t, os.Mkdir(dir, 0o700))
	}
	write(t, filepath.Join(w.bin, "nomad"), "#!/bin/sh\n", 0o755)
	write(t, filepath.Join(w.dir, "pod.yaml"), "kind: Pod\n", 0o644)
	return w
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	must.Do(t, os.Chmod(path, mode))
}

func (w world) file() string { return filepath.Join(w.dir, "places.json") }

func (w world) read() ([]config.Place, error) {
	return config.Read(w.file(), w.workspace, []string{"PATH=relative:" + w.bin})
}

// The example of the docs, with every key, and the defaults of all the others.
func TestRead(t *testing.T) {
	w := newWorld(t)
	write(t, filepath.Join(w.dir, "arm"), "program", 0o755)
	write(t, w.file(), `{"places": {
		"pods":    {"kubernetes": "pod.yaml", "workspace": "/data", "idle": "90s", "max": 3},
		"gpu":     {"ssh": "me@gpu-box", "workspace": "/home/me/project/"},
		"cluster": {"slurm": ["--partition=short", "--gres=gpu:1"], "ssh": ["-p", "2222", "me@login"],
		            "workspace": "/shared/me/project", "setup": "module load cuda\nexport A=1", "python": "/opt/py/bin/python",
		            "binary": "arm", "keep": true, "linger": "1h30m"},
		"other":   {"exec": ["nomad", "alloc", "exec", "-i", "1a2b"], "workspace": "/data"},
		"bare":    {"slurm": [], "workspace": "/data"}}}`, 0o644)
	want := []config.Place{
		{Name: "bare", Kind: config.Slurm, Slurm: []string{}, Workspace: "/data", Linger: 24 * time.Hour, Idle: 10 * time.Minute, Max: 20},
		{Name: "cluster", Kind: config.Slurm, Slurm: []string{"--partition=short", "--gres=gpu:1"}, SSH: []string{"-p", "2222", "me@login"},
			Workspace: "/shared/me/project", Setup: "module load cuda\nexport A=1", Python: "/opt/py/bin/python",
			Binary: filepath.Join(w.dir, "arm"), Keep: true, Linger: 90 * time.Minute, Idle: 10 * time.Minute, Max: 20},
		{Name: "gpu", Kind: config.SSH, SSH: []string{"me@gpu-box"}, Workspace: "/home/me/project", Linger: 24 * time.Hour},
		{Name: "other", Kind: config.Exec, Exec: []string{filepath.Join(w.bin, "nomad"), "alloc", "exec", "-i", "1a2b"}, Workspace: "/data", Linger: 24 * time.Hour},
		{Name: "pods", Kind: config.Kubernetes, Pod: []byte("kind: Pod\n"), PodFile: filepath.Join(w.dir, "pod.yaml"), Workspace: "/data",
			Linger: 24 * time.Hour, Idle: 90 * time.Second, Max: 3},
	}
	got, err := w.read()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	var kinds []string
	for _, p := range got {
		kinds = append(kinds, fmt.Sprint(p.Kind, p.Kind.Allocates()))
	}
	if got := strings.Join(kinds, ", "); got != "slurm true, slurm true, ssh false, exec false, kubernetes true" {
		t.Errorf("the kinds are %s", got)
	}
}

// checkRefusal checks that an error is one sentence that begins with the path and has the parts that matter.
func checkRefusal(t *testing.T, path string, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("it was read, and should be refused with %q", want)
		return
	}
	text, ok := strings.CutPrefix(err.Error(), fmt.Sprintf("reading the places in %q: ", path))
	if !ok || strings.ContainsAny(text, "\n\r\x1b") || strings.Contains(text, ". ") {
		t.Errorf("%q is not one sentence about the file", err)
	}
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("got %q, want %q in it", text, part)
		}
	}
}

// Each mistake in the text is refused. The errors say what is wrong and, after the last colon, what to do.
func TestBadTextIsRefused(t *testing.T) {
	in := func(place string) string { return `{"places": {"gpu": ` + place + `}}` }
	with := func(more string) string { return in(`{"ssh": "me@host", "workspace": "/w", ` + more + `}`) }
	slurm := func(more string) string { return in(`{"slurm": [], "workspace": "/w", ` + more + `}`) }
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"empty file":               {"", []string{"it is not JSON in line 1", "correct it there"}},
		"half a file":              {"{\"places\":\n {\"gpu\": {", []string{"not JSON in line 2"}},
		"a comma too many":         {"{\"places\":\n {\"gpu\": {},\n}}", []string{"not JSON in line 3", "'}'"}},
		"two values":               {in(`{"ssh": "a", "workspace": "/w"}`) + "{}", []string{"not JSON in line 1", "after top-level value"}},
		"YAML":                     {"places:\n  gpu:\n", []string{"not JSON in line 1"}},
		"not UTF-8":                {in("{\"ssh\": \"\xff\"}"), []string{"not UTF-8: save it as UTF-8"}},
		"nested without end":       {strings.Repeat("[", 100_000), []string{"not JSON"}},
		"a list":                   {`[]`, []string{"the file is not an object: begin it with {"}},
		"null":                     {`null`, []string{"the file is not an object"}},
		"no places":                {`{}`, []string{"names no place: add one"}},
		"empty places":             {`{"places": {}}`, []string{"names no place: add one"}},
		"places twice":             {`{"places": {}, "places": {}}`, []string{`the file has "places" twice: remove one`}},
		"another key of the file":  {`{"places": {}, "servers": {}}`, []string{`unknown key "servers"`, `only "places"`}},
		"another case":             {`{"Places": {}}`, []string{`unknown key "Places"`}},
		"a list of places":         {`{"places": []}`, []string{`"places" is not an object: begin it with {`}},
		"places null":              {`{"places": null}`, []string{`"places" is not an object`}},
		"a place that is a string": {in(`"me@host"`), []string{`the place "gpu" is not an object: begin it with {`}},
		"a place twice":            {`{"places": {"a": {"ssh": "h", "workspace": "/w"}, "\u0061": {"ssh": "h", "workspace": "/w"}}}`, []string{`"places" has "a" twice: remove one`}},

		"no name":             {`{"places": {"": {}}}`, []string{`the place "" must have another name: 1 to 64 ASCII letters`}},
		"a name with a slash": {`{"places": {"../a": {}}}`, []string{`the place "../a" must have another name`}},
		"a name with escapes": {`{"places": {"a\u001b[2J\n": {}}}`, []string{`the place "a\x1b[2J\n" must have another name`}},
		"a long name":         {`{"places": {"` + strings.Repeat("a", 65) + `": {}}}`, []string{"must have another name"}},
		"the default session": {`{"places": {"default": {}}}`, []string{`the place "default" must have another name: the default session here has this one`}},

		"an unknown key":         {with(`"user": "me"`), []string{`the place "gpu" has an unknown key "user": the keys are ssh, slurm,`}},
		"a key in another case":  {with(`"Keep": true`), []string{`unknown key "Keep"`}},
		"a key twice":            {with(`"ssh": "other"`), []string{`the place "gpu" has "ssh" twice: remove one`}},
		"no kind":                {in(`{"workspace": "/w"}`), []string{`the place "gpu" has no kind: add one of ssh, exec, slurm, kubernetes`}},
		"ssh and exec":           {with(`"exec": ["/bin/sh"]`), []string{`has two kinds, "ssh" and "exec": keep one`}},
		"exec and slurm":         {slurm(`"exec": ["/bin/sh"]`), []string{`has two kinds, "exec" and "slurm": keep one`}},
		"slurm and kubernetes":   {slurm(`"kubernetes": "pod.yaml"`), []string{`has two kinds, "slurm" and "kubernetes": keep one`}},
		"slurm, kubernetes, ssh": {slurm(`"kubernetes": "pod.yaml", "ssh": "h"`), []string{`has two kinds, "slurm" and "kubernetes": keep one`}},

		"no workspace":         {in(`{"ssh": "h"}`), []string{`has no "workspace": add an absolute directory there`}},
		"a relative workspace": {in(`{"ssh": "h", "workspace": "project"}`), []string{`"workspace" must be an absolute directory there, such as`}},
		"a home":               {in(`{"ssh": "h", "workspace": "~/project"}`), []string{`"workspace" must be an absolute directory`}},
		"an empty workspace":   {in(`{"ssh": "h", "workspace": ""}`), []string{`"workspace" must be`}},
		"a workspace null":     {in(`{"ssh": "h", "workspace": null}`), []string{`"workspace" must be`}},
		"a newline in it":      {in(`{"ssh": "h", "workspace": "/w\nrm"}`), []string{`"workspace" must be`}},

		"an option as destination":       {in(`{"ssh": "-oProxyCommand=evil", "workspace": "/w"}`), []string{`"ssh" has the destination "-oProxyCommand=evil", which ssh would take for an option: end it with`}},
		"a list that ends with one":      {in(`{"ssh": ["h", "-v"], "workspace": "/w"}`), []string{`the destination "-v", which ssh would take for an option`}},
		"a command line of ssh":          {in(`{"ssh": "h -p 22", "workspace": "/w"}`), []string{`the destination "h -p 22" with spaces: write ssh's arguments as a list`}},
		"no destination":                 {in(`{"ssh": "", "workspace": "/w"}`), []string{`"ssh" must be a destination such as`}},
		"no arguments":                   {in(`{"ssh": [], "workspace": "/w"}`), []string{`"ssh" must be a destination`}},
		"ssh true":                       {in(`{"ssh": true, "workspace": "/w"}`), []string{`"ssh" must be a destination`}},
		"ssh null":                       {in(`{"ssh": null, "workspace": "/w"}`), []string{`"ssh" must be a destination`}},
		"a number among the arguments":   {in(`{"ssh": ["-p", 22, "h"], "workspace": "/w"}`), []string{`"ssh" must be a destination`}},
		"null among the arguments":       {in(`{"ssh": [null, "h"], "workspace": "/w"}`), []string{`"ssh" must be a destination`}},
		"a zero byte in an argument":     {in(`{"ssh": "h\u0000", "workspace": "/w"}`), []string{`"ssh" must be a destination`}},
		"slurm as a string":              {in(`{"slurm": "--partition=a", "workspace": "/w"}`), []string{`"slurm" must be a list of sbatch's options, such as ["--partition=short"]`}},
		"exec as a string":               {in(`{"exec": "docker exec", "workspace": "/w"}`), []string{`"exec" must be a list of a program and its arguments`}},
		"exec without a program":         {in(`{"exec": [], "workspace": "/w"}`), []string{`"exec" must be a list`}},
		"a program beside the file":      {in(`{"exec": ["./carry"], "workspace": "/w"}`), []string{`"exec" has the relative program "./carry": make its path absolute`}},
		"a program that is nowhere":      {in(`{"exec": ["no-such-program"], "workspace": "/w"}`), []string{`the program "no-such-program", which is not on the PATH: install it, or write its absolute path`}},
		"a Pod as an object":             {in(`{"kubernetes": {"kind": "Pod"}, "workspace": "/w"}`), []string{`"kubernetes" must be the path of the file of a Pod`}},
		"a Pod that is missing":          {in(`{"kubernetes": "none.yaml", "workspace": "/w"}`), []string{`"kubernetes" names "`, `none.yaml": it can't be opened (no such file or directory): check the path`}},
		"a directory that is missing":    {in(`{"kubernetes": "no/pod.yaml", "workspace": "/w"}`), []string{`its directory can't be opened (no such file or directory): check the path`}},
		"a binary that is missing":       {with(`"binary": "arm"`), []string{`"binary" names "`, "check the path"}},
		"a binary as a list":             {with(`"binary": ["arm"]`), []string{`"binary" must be the path of the file here`}},
		"setup as a list":                {with(`"setup": ["a"]`), []string{`"setup" must be shell lines in one string`}},
		"setup with a zero byte":         {with(`"setup": "a\u0000"`), []string{`"setup" must be shell lines`}},
		"no python":                      {with(`"python": ""`), []string{`"python" must be a Python interpreter there`}},
		"keep as a string":               {with(`"keep": "true"`), []string{`"keep" must be true or false`}},
		"keep null":                      {with(`"keep": null`), []string{`"keep" must be true or false`}},
		"linger as a number":             {with(`"linger": 24`), []string{`"linger" must be a time of 1s or more in quotes, such as "90s"`}},
		"linger without a unit":          {with(`"linger": "24"`), []string{`"linger" must be a time`}},
		"linger in days":                 {with(`"linger": "1d"`), []string{`"linger" must be a time`}},
		"a negative time":                {with(`"linger": "-1h"`), []string{`"linger" must be a time`}},
		"no time":                        {slurm(`"idle": "0s"`), []string{`"idle" must be a time`}},
		"a time that is no number":       {slurm(`"idle": "99999999h"`), []string{`"idle" must be a time`}},
		"max as a string":                {slurm(`"max": "3"`), []string{`"max" must be a whole number from 1 to 1000`}},
		"half an allocation":             {slurm(`"max": 1.5`), []string{`"max" must be a whole number`}},
		"no allocation":                  {slurm(`"max": 0`), []string{`"max" must be a whole number`}},
		"too many":                       {slurm(`"max": 1e400`), []string{`"max" must be a whole number`}},
		"idle of ssh":                    {with(`"idle": "10m"`), []string{`has "idle", which only places with "slurm" or "kubernetes" can have: remove it`}},
		"max of ssh":                     {with(`"max": 2`), []string{`has "max", which only`}},
		"a file of more than a mebibyte": {in(`{"ssh": "h", "workspace": "/w"}`) + strings.Repeat(" ", 1<<20), []string{"it is larger than 1048576 bytes: name a smaller file"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			write(t, w.file(), c.text, 0o600)
			_, err := w.read()
			checkRefusal(t, w.file(), err, c.want...)
		})
	}
}

// The files that decide what is started can be written by this user and root only. breakIt makes one of them
// bad.
func TestFileThatOthersCanWriteIsRefused(t *testing.T) {
	const text = `{"places": {"p": {"kubernetes": "PLACE/pod.yaml", "binary": "PLACE/arm", "workspace": "/w"}}}`
	chown := func(t *testing.T, path string) {
		needtest.Right(t, "give a file away", os.Chown(path, 12345, -1), nil)
	}
	for name, c := range map[string]struct {
		breakIt func(t *testing.T, path string)
		want    string
	}{
		"group":           {func(t *testing.T, path string) { must.Do(t, os.Chmod(path, 0o620)) }, "its mode is 0620, so that other users can write it: chmod go-w it"},
		"world":           {func(t *testing.T, path string) { must.Do(t, os.Chmod(path, 0o602)) }, "its mode is 0602"},
		"another user's":  {chown, "it belongs to user 12345, and this server runs as user "},
		"directory group": {func(t *testing.T, path string) { must.Do(t, os.Chmod(filepath.Dir(path), 0o770)) }, `that holds it: its mode is 0770, so that other users can write it: chmod go-w it`},
		"directory world": {func(t *testing.T, path string) { must.Do(t, os.Chmod(filepath.Dir(path), 0o777|os.ModeSticky)) }, "its mode is 0777"},
		"directory of another user": {func(t *testing.T, path string) { chown(t, filepath.Dir(path)) },
			"that holds it: it belongs to user 12345"},
		"link": {func(t *testing.T, path string) {
			must.Do(t, os.Rename(path, path+"2"))
			must.Do(t, os.Symlink(path+"2", path))
		}, "it is a symbolic link: name the file itself"},
		"directory": {func(t *testing.T, path string) {
			must.Do(t, os.Remove(path))
			must.Do(t, os.Mkdir(path, 0o700))
		}, "it is a directory: name the file"},
		"FIFO": {func(t *testing.T, path string) {
			must.Do(t, os.Remove(path))
			must.Do(t, syscall.Mkfifo(path, 0o600))
		}, "it is not a regular file: name one"},
		"missing": {func(t *testing.T, path string) { must.Do(t, os.Remove(path)) }, "no such file or directory): check the path"},
	} {
		for _, file := range []string{"conf/places.json", "kube/pod.yaml", "bin/arm"} {
			t.Run(name+" "+filepath.Base(file), func(t *testing.T) {
				top := t.TempDir()
				for dir, file := range map[string]string{"conf": "places.json", "kube": "pod.yaml", "bin": "arm"} {
					must.Do(t, os.Mkdir(filepath.Join(top, dir), 0o755))
					write(t, filepath.Join(top, dir, file), "x", 0o644)
				}
				places := filepath.Join(top, "conf", "places.json")
				absolute := strings.NewReplacer("PLACE/pod", "../kube/pod", "PLACE", top+"/bin").Replace(text)
				write(t, places, absolute, 0o644)
				if _, err := config.Read(places, "", nil); err != nil {
					t.Fatalf("what is right is refused: %v", err)
				}
				c.breakIt(t, filepath.Join(top, file))
				_, err := config.Read(places, "", nil)
				checkRefusal(t, places, err, c.want)
				if err != nil && file != "conf/places.json" && !strings.Contains(err.Error(), fmt.Sprintf("names %q: ", filepath.Join(top, file))) {
					t.Errorf("%v does not name the file", err)
				}
			})
		}
	}
}

// A large file is not read into memory. This one has 8 TiB, and no data.
func TestHugeFileIsRefused(t *testing.T) {
	w := newWorld(t)
	write(t, filepath.Join(w.dir, "pod.yaml"), "", 0o600)
	write(t, w.file(), `{"places": {"p": {"kubernetes": "pod.yaml", "workspace": "/w"}}}`, 0o600)
	_, err := w.read()
	checkRefusal(t, w.file(), err, `pod.yaml": it is empty: write a Pod there`)
	for _, name := range []string{"pod.yaml", "places.json"} {
		needtest.Unless(t, "no file can be so large", os.Truncate(filepath.Join(w.dir, name), 8<<40), syscall.EFBIG)
		_, err = w.read()
		checkRefusal(t, w.file(), err, "it is larger than 1048576 bytes: name a smaller file")
	}
}

func TestRelativePathIsRefused(t *testing.T) {
	_, err := config.Read("places.json", "", nil)
	checkRefusal(t, "places.json", err, "the path is relative: make it absolute")
}

// Jobs write their workspace, by each of its paths. They must not change what this server starts.
func TestFileInTheWorkspaceIsRefused(t *testing.T) {
	const text = `{"places": {"p": {"kubernetes": "%s", "binary": "%s", "workspace": "/w"}}}`
	w := newWorld(t)
	deep := filepath.Join(w.workspace, "deep")
	must.Do(t, os.Mkdir(deep, 0o700))
	must.Do(t, os.Symlink(deep, filepath.Join(w.dir, "in")))                  // leads into the workspace
	must.Do(t, os.Symlink(w.dir, filepath.Join(w.workspace, "out")))          // leads out of it, but jobs can change that
	must.Do(t, os.Symlink(w.workspace, filepath.Join(w.dir, "another-name"))) // the workspace itself
	beside := w.workspace + "-2"
	must.Do(t, os.Mkdir(beside, 0o700))
	for _, dir := range []string{w.workspace, deep, w.dir, beside} {
		write(t, filepath.Join(dir, "pod.yaml"), "kind: Pod\n", 0o600)
		write(t, filepath.Join(dir, "arm"), "program", 0o700)
		write(t, filepath.Join(dir, "places.json"), fmt.Sprintf(text, filepath.Join(w.dir, "pod.yaml"), filepath.Join(w.dir, "arm")), 0o600)
	}
	for _, c := range []struct {
		dir string
		in  bool
	}{
		{w.workspace, true},
		{deep, true},
		{filepath.Join(w.dir, "in"), true},
		{filepath.Join(w.workspace, "out"), true},
		{filepath.Join(w.dir, "another-name"), true},
		{filepath.Join(w.dir, "another-name", "deep"), true},
		{filepath.Join(w.workspace, "..", "conf"), false},
		{w.dir, false},
		{beside, false},
	} {
		for _, workspace := range []string{w.workspace, filepath.Join(w.dir, "another-name")} {
			path := filepath.Join(c.dir, "places.json")
			if _, err := config.Read(path, workspace, nil); c.in {
				checkRefusal(t, path, err, fmt.Sprintf("it is in the workspace %q, where jobs could change it: move it elsewhere, or name your project by -workdir", workspace))
			} else if err != nil {
				t.Errorf("%s is refused: %v", c.dir, err)
			}
			second := filepath.Join(w.dir, "second.json")
			for file, dirs := range map[string][2]string{"pod.yaml": {c.dir, w.dir}, "arm": {w.dir, c.dir}} {
				write(t, second, fmt.Sprintf(text, filepath.Join(dirs[0], "pod.yaml"), filepath.Join(dirs[1], "arm")), 0o600)
				if _, err := config.Read(second, workspace, nil); c.in {
					checkRefusal(t, second, err, fmt.Sprintf("names %q: it is in the workspace", filepath.Join(c.dir, file)))
				} else if err != nil {
					t.Errorf("%s is refused: %v", c.dir, err)
				}
			}
		}
	}
	// What does not exist yet has no file in it.
	if _, err := config.Read(w.file(), filepath.Join(w.dir, "new"), nil); err != nil {
		t.Error(err)
	}
}

// No text makes Read panic, and every error is one sentence.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"places": {"gpu": {"ssh": ["-p", "1", "h"], "workspace": "/w", "keep": true, "linger": "1h"}}}`,
		`{"places": {"c": {"slurm": [], "ssh": "h", "workspace": "/w", "max": 1, "idle": "1s", "setup": "x", "python": "p"}}}`,
		`{"places": {"o": {"exec": ["/bin/sh"], "workspace": "/w"}}}`, `{"places": {"k": {"kubernetes": "/x", "binary": 1}}}`, `{"places": 1}`,
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	path := filepath.Join(dir, "places.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		must.Do(t, os.WriteFile(path, text, 0o600))
		places, err := config.Read(path, "", nil)
		if err != nil {
			checkRefusal(t, path, err)
		}
		for _, p := range places {
			if p.Name == "" || !strings.HasPrefix(p.Workspace, "/") || p.Linger <= 0 || p.Kind.Allocates() != (p.Max > 0 && p.Idle > 0) {
				t.Errorf("%q is read as %+v", text, p)
			}
		}
	})
}
