package pkgmgr

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Places in requirements are addresses and paths. Paths are checked where they
// are read, and go to the installer as file addresses: pip and uv disagree
// about blanks, brackets, semicolons and dollar signs in paths, but not in
// addresses. Extras behind a path need it as a path, though.

// archiveSuffixes end the names of wheels and of source archives.
var archiveSuffixes = []string{".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tbz", ".tar.xz", ".txz", ".tar"}

func isArchive(name string) bool {
	return slices.ContainsFunc(archiveSuffixes, func(s string) bool { return strings.HasSuffix(strings.ToLower(name), s) })
}

var (
	address    = pattern(`^(?i)([a-z][a-z0-9.-]*(\+[a-z0-9.-]+)?://|file:)`)
	firstSlash = pattern(`^[^@;,<>=!~\[('"$&|\x60\\]*/`)
	pathExtras = pattern(`^(.*[^/])(\[[A-Za-z0-9._,-]*\])$`)
)

// maxPlace is what a system takes as a path.
const maxPlace = 4096

// atPlace tells whether an address or a path begins here. A word without a slash
// is a name, unless it begins with a dot or ends as an archive does.
func (p *parser) atPlace() bool {
	word := p.text[p.pos:p.placeEnd()]
	bare := strings.TrimRight(word, ",;")
	if m := pathExtras().FindStringSubmatch(bare); m != nil {
		bare = m[1]
	}
	switch {
	case word == "" || word[0] == '-':
		return false
	case word[0] == '.' || word[0] == '/' || word[0] == '~' && !strings.HasPrefix(word, "~="):
		return true
	}
	return address().MatchString(word) || hostLike().MatchString(word) || firstSlash().MatchString(word) ||
		isArchive(bare) && !strings.ContainsAny(bare, " @;,<>=!~\"'")
}

// placeEnd returns the end of a place that begins here: the next blank, in
// quotes their end, before any marker.
func (p *parser) placeEnd() int {
	end := p.pos
	for end < len(p.text) && p.text[end] != '\n' && p.text[end] != '\r' {
		c := p.text[end]
		blank := c == ' ' || c == '\t'
		if p.quote == 0 && blank || p.quote != 0 && c == p.quote {
			break
		}
		if p.quote != 0 && c == ';' && (strings.HasSuffix(p.text[p.pos:end], " ") || strings.HasPrefix(p.text[end+1:], " ")) {
			break
		}
		end++
	}
	return end
}

// place takes an address or a path.
func (p *parser) place() (string, error) {
	end := p.placeEnd()
	word := p.text[p.pos:end]
	if p.quote == 0 { // what separates stands without a blank before it
		word = strings.TrimRight(word, ",")
		word = strings.TrimSuffix(word, ";")
	}
	p.pos += len(word)
	word = strings.TrimRight(word, " \t")
	switch {
	case word == "":
		return "", p.refuse()
	case len(word) > maxPlace:
		return "", p.because(fmt.Sprintf("longer than %d bytes, as no path can be", maxPlace))
	}
	for _, r := range word {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return "", p.because(fmt.Sprintf("%q can't stand in an address or a path", r))
		}
	}
	return word, nil
}

// argument writes an item as the installer is to read it. Nothing of it begins
// with a dash but the options that are ours.
func (m *Manager) argument(it item) (string, error) {
	var err error
	switch {
	case it.place == "":
		return it.String(), nil
	case it.option == "requirement" || it.option == "constraint":
		it.place, err = m.list(it.place)
	case it.option == "editable":
		it.place, err = m.project(it.place)
	case address().MatchString(it.place):
		err = checkAddress(it.place)
	default:
		it.place, err = m.local(it)
	}
	if err != nil {
		return "", err
	}
	return it.String(), nil
}

// list returns the full path of a file with requirements, or its address.
func (m *Manager) list(place string) (string, error) {
	if address().MatchString(place) {
		u, err := url.Parse(place)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return "", refused(place, "a file with requirements is given by its path, or by an address with https://")
		}
		return place, nil
	}
	path, st, err := m.stat(place, place)
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() {
		return "", refused(place, path+" is not a file; -r and -c take a file with requirements, a directory stands on its own, such as ./project")
	}
	return path, readable(place, path)
}

// project returns a directory as it stands behind -e.
func (m *Manager) project(place string) (string, error) {
	if address().MatchString(place) {
		return "", refused(place, "-e takes the path of a directory; an address stands on its own")
	}
	to, err := m.local(item{place: place})
	if err != nil {
		return "", err
	}
	if isArchive(place) {
		return "", refused(place, "-e takes the path of a directory; an archive stands on its own")
	}
	return to, nil
}

// local returns a wheel, an archive or a project's directory as the installer is
// to be told of it.
func (m *Manager) local(it item) (string, error) {
	place, extras := it.place, ""
	if _, _, err := m.stat(it.place, place); err != nil && it.name == "" {
		if parts := pathExtras().FindStringSubmatch(place); parts != nil {
			place, extras = parts[1], parts[2]
		}
	}
	path, st, err := m.stat(it.place, place)
	if err != nil {
		return "", err
	}
	switch {
	case st.IsDir() && !exists(filepath.Join(path, "pyproject.toml")) && !exists(filepath.Join(path, "setup.py")):
		return "", refused(it.place, path+" holds neither a pyproject.toml nor a setup.py, so there is no project in it to install")
	case !st.IsDir() && !(st.Mode().IsRegular() && isArchive(path)):
		return "", refused(it.place, path+" is neither a directory nor a wheel nor a source archive (.whl, .tar.gz, .zip); a file with requirements is given by -r")
	}
	if err := readable(it.place, path); err != nil {
		return "", err
	}
	if extras == "" {
		return (&url.URL{Scheme: "file", Path: path}).String(), nil
	}
	if strings.ContainsAny(path, ";#") || strings.Contains(path, "${") {
		return "", refused(it.place, "installers can't read extras behind this path; write the name before it, such as name"+extras+" @ "+place)
	}
	return path + extras, nil
}

// hostLike is what looks like an address without its scheme.
var hostLike = pattern(`^([\w.-]+@)?[\w-]+(\.[\w-]+)*\.[a-z]{2,}[:/]`)

// stat returns the full path of a place and what is there.
func (m *Manager) stat(shown, place string) (string, fs.FileInfo, error) {
	if rest, ok := strings.CutPrefix(place, "~"); ok && (rest == "" || rest[0] == '/') {
		if home := m.getenv("HOME"); filepath.IsAbs(home) {
			place = home + rest
		}
	}
	path := m.abs(place)
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && hostLike().MatchString(place):
		return "", nil, refused(shown, "there is no "+path+", and an address begins with https:// or, of a repository, git+https:// or git+ssh://")
	case errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(place):
		return "", nil, refused(shown, "there is no "+path+"; relative paths start in the workspace")
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, refused(shown, "there is no "+path)
	case err != nil:
		return "", nil, refused(shown, fmt.Sprintf("%s can't be used: %v", path, reason(err)))
	}
	return path, st, nil
}

// readable refuses what can't be opened. The path is of a file or a directory:
// opening either doesn't block.
func readable(shown, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return refused(shown, fmt.Sprintf("%s can't be read: %v", path, reason(err)))
	}
	return f.Close()
}

// repositories are the version control systems of pip; uv knows the first.
var repositories = []string{"git", "hg", "svn", "bzr"}

// checkAddress refuses addresses that are surely a mistake, and those of which a
// part would be an option to the program that fetches them.
func checkAddress(place string) error {
	u, err := url.Parse(place)
	if err != nil {
		return refused(place, "it is not a well-formed address")
	}
	vcs, transport, isRepo := strings.Cut(u.Scheme, "+")
	rev := u.Path[strings.LastIndexByte(u.Path, '@')+1:]
	switch {
	case isRepo && !slices.Contains(repositories, vcs),
		isRepo && !slices.Contains([]string{"https", "http", "ssh", "file", "git", "svn", "lp", "sftp", "static-http"}, transport),
		!isRepo && !slices.Contains([]string{"https", "http", "file"}, vcs):
		return refused(place, fmt.Sprintf("no package can be fetched by %s:; an address begins with https://, http://, file:///, git+https:// or git+ssh://", u.Scheme))
	case strings.HasSuffix(u.Scheme, "file"):
		if !strings.HasPrefix(u.Path, "/") || u.Host != "" && u.Host != "localhost" {
			return refused(place, "an address of a file is file:// and its full path; a relative path stands on its own, such as ./project")
		}
		if _, err := os.Stat(u.Path); !isRepo && errors.Is(err, fs.ErrNotExist) {
			return refused(place, "there is no "+u.Path)
		}
	case u.Hostname() == "":
		return refused(place, "it names no host")
	case !isRepo && strings.HasSuffix(u.Path, ".git"):
		return refused(place, "a repository is given as git+"+clip(place))
	}
	if strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-") || isRepo && strings.HasPrefix(rev, "-") {
		return refused(place, "no part of it may begin with -")
	}
	return nil
}

// refused is the error about a place, whose path may be long.
func refused(text, reason string) error {
	const most = 600
	if len(reason) > most {
		reason = strings.ToValidUTF8(reason[:most], "") + "…"
	}
	return &RequirementError{clip(text), reason}
}
