//go:build unix

package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed static
var static embed.FS

// A file is one of the page's own.
type file struct {
	data []byte
	tag  string // its ETag
}

// files are the page's own, by their paths without the first slash.
var files = sync.OnceValue(func() map[string]file {
	all := make(map[string]file)
	err := fs.WalkDir(static, "static", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := static.ReadFile(path)
		all[strings.TrimPrefix(path, "static/")] = newFile(data)
		return err
	})
	if err != nil {
		panic(err) // the files are in the program
	}
	all[loginName] = newFile(bytes.Replace(all[indexName].data, []byte("<html "), []byte("<html data-login "), 1))
	return all
})

// The page, and the page of a browser that can log out. Its scripts read that from its first element.
const (
	indexName = "index.html"
	loginName = "login.html"
)

func newFile(data []byte) file { return file{data, fmt.Sprintf(`"%.16x"`, sha256.Sum256(data))} }

// kinds are the types of the page's files, by their extensions. A system can have others.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".mjs": "text/javascript; charset=utf-8", ".js": "text/javascript; charset=utf-8", "": "text/plain; charset=utf-8",
}

// Static serves the page's own files: /, /jobs/… and /sessions/…, which are all index.html, /app.mjs and
// others. If login is true, the page has a button to log out. Static reports whether it has a file of that
// path.
func Static(w http.ResponseWriter, r *http.Request, login bool) bool {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if name == "" || strings.HasPrefix(name, "jobs/") || strings.HasPrefix(name, "sessions/") {
		name = indexName
		if login {
			name = loginName
		}
	}
	f, found := files()[name]
	if !found || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	h := w.Header()
	Protect(h)
	h.Set("Content-Type", kinds[path.Ext(name)])
	h.Set("ETag", f.tag)
	h.Set("Cache-Control", "no-cache") // the browser asks whether the tag is the same
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.data))
	return true
}
