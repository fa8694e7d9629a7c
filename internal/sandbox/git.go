//go:build linux

package sandbox

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A workspace has files that make programs outside start others: a hook runs with the person's next git
// command, a server of .mcp.json with the next agent. A job can still make those that do not exist.
//
// It can also make the person's git obey other files (git 2.39): the directory that .git/commondir names, a
// repository that the index has as a submodule, a bare repository where there is no .git/HEAD. An empty
// commondir, as a mount would leave behind, breaks git, and the others can't be kept from a job that uses
// git. So nothing is made; a clone obeys none of them (TestCloneOfWhatAJobHasPlanted).

// obeyed are such files and directories, except those of git.
var obeyed = []string{
	".claude", ".codex", ".cursor", ".devcontainer", ".envrc", ".idea", ".mcp.json", ".vscode",
}

// obeyedByGit are the files of a git directory that decide which programs git runs. If there is a commondir,
// git takes hooks and config from the directory that it names (git 2.39). A gitdir leads from here to the
// worktree, and the directory worktrees has such files of other worktrees.
var obeyedByGit = []string{"commondir", "config", "config.worktree", "gitdir", "hooks"}

// mostTrees bounds the worktrees that are protected one by one. Jobs can have made any number.
const mostTrees = 100

// mostModules bounds the directories that are searched for the git directories of submodules.
const mostModules = 10_000

// protected returns the paths at which a workspace has a file or directory that programs outside obey, and
// the directories outside the workspace that its git writes. It also returns the paths that are left open:
// a link can't be protected, because a mount is made at its target. The workspace is a path without links.
func protected(workspace string) (paths, writes, open []string) {
	add := func(dir string, names []string) {
		for _, name := range names {
			path := filepath.Join(dir, name)
			switch info, err := os.Lstat(path); {
			case err != nil:
			case info.IsDir() || info.Mode().IsRegular():
				paths = append(paths, path)
			default:
				open = append(open, path)
			}
		}
	}
	addGit := func(dir string) {
		add(dir, obeyedByGit)
		trees := []string{"worktrees"}
		if path := filepath.Join(dir, trees[0]); resolved(path) == path && under(path, workspace) {
			if others := otherTrees(path, workspace); len(others) <= mostTrees {
				dir, trees = path, others
			}
		}
		add(dir, trees)
	}
	add(workspace, obeyed)
	dir := filepath.Join(workspace, ".git")
	switch info, err := os.Lstat(dir); {
	case err != nil:
		return paths, nil, open
	case info.Mode().IsRegular():
		paths = append(paths, dir)
		own, common := gitDirs(workspace)
		if own == "" {
			return paths, nil, open
		}
		if dir = common; own != common {
			addGit(own)
		}
		if !under(own, workspace) {
			writes = slices.Compact([]string{common, own})
		}
	case !info.IsDir():
		return paths, nil, append(open, dir)
	}
	addGit(dir)
	for _, path := range named(workspace, dir) {
		switch real := resolved(path); {
		case real == "":
		case real == path:
			paths = append(paths, path)
		default:
			open = append(open, path)
		}
	}
	// The git directories of submodules can be below others, because their names have slashes. Whether
	// one is complete does not count: a job could complete it later.
	left, modules := mostModules, filepath.Join(dir, "modules")
	filepath.WalkDir(modules, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		if left--; left < 0 {
			open = append(open, modules)
			return filepath.SkipAll
		}
		switch d.Name() {
		case "hooks", "info", "lfs", "logs", "objects", "refs", "worktrees":
			if hasConfig(filepath.Dir(path)) && !hasConfig(path) {
				return filepath.SkipDir // it belongs to a git directory, and is none
			}
		}
		addGit(path)
		return nil
	})
	return paths, writes, open
}

// otherTrees returns the names in a directory of worktrees that are not of one in the workspace. Jobs write
// the .git of those in the workspace, so nothing protects them.
func otherTrees(dir, workspace string) (names []string) {
	entries, _ := os.ReadDir(dir) // an error: there are none
	for _, e := range entries {
		back := line(filepath.Join(dir, e.Name(), "gitdir"))
		tree := filepath.Dir(back)
		if !filepath.IsAbs(back) {
			tree = filepath.Join(dir, e.Name(), tree)
		}
		// A worktree that was removed counts by its path.
		if back == "" || !under(cmp.Or(resolved(tree), tree), workspace) {
			names = append(names, e.Name())
		}
	}
	return names
}

// named returns the paths in the workspace that the config of a git directory names as its hooks or includes.
// The hooks of husky are in a directory "_" and run the files beside it.
func named(workspace, dir string) (paths []string) {
	for line := range strings.Lines(text(filepath.Join(dir, "config"), 1<<20)) {
		key, value, _ := strings.Cut(line, "=")
		path, from := strings.Trim(strings.TrimSpace(value), `"`), dir
		switch words := strings.Fields(strings.ToLower(key)); {
		case len(words) == 0:
			continue
		case words[len(words)-1] == "hookspath":
			from = workspace
		case words[len(words)-1] != "path":
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(from, path)
		}
		if path = filepath.Clean(path); filepath.Base(path) == "_" {
			path = filepath.Dir(path)
		}
		if path != workspace && under(path, workspace) && !under(dir, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// gitDirs returns the git directory of a workspace whose .git is a file, and the one that has its objects,
// hooks and config. They are "" if they are not to be believed: a job can have written the file. A
// directory outside must name this workspace as its own, which a job can't make another one do.
func gitDirs(workspace string) (own, common string) {
	path, ok := strings.CutPrefix(line(filepath.Join(workspace, ".git")), "gitdir: ")
	if !ok {
		return "", ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(workspace, path)
	}
	own, _, err := resolve(path)
	if err != nil {
		return "", ""
	}
	common = own
	above := filepath.Dir(own)
	linked := filepath.Base(above) == "worktrees" // it is COMMON/worktrees/NAME
	if linked {
		common = filepath.Dir(above)
	}
	switch {
	case under(own, workspace):
		if !under(common, workspace) {
			common = own
		}
		return own, common
	case !isGitDir(common):
		return "", ""
	case linked:
		back := line(filepath.Join(own, "gitdir"))
		if !filepath.IsAbs(back) {
			back = filepath.Join(own, back)
		}
		// Jobs of earlier runs could write the commondir, too, so only the usual one counts.
		if filepath.Base(back) == ".git" && resolved(filepath.Dir(back)) == workspace && line(filepath.Join(own, "commondir")) == "../.." {
			return own, common
		}
		return "", ""
	}
	// It is that of a submodule, whose config names its worktree.
	config, err := os.ReadFile(filepath.Join(own, "config"))
	if err != nil {
		return "", ""
	}
	for text := range strings.Lines(string(config)) {
		key, value, _ := strings.Cut(text, "=")
		if path := strings.TrimSpace(value); strings.TrimSpace(key) == "worktree" && resolved(filepath.Join(own, path)) == workspace {
			return own, common
		}
	}
	return "", ""
}

// hasConfig reports whether a directory has the config of a git directory, which jobs can't remove.
func hasConfig(dir string) bool { return exists(filepath.Join(dir, "config")) }

// isGitDir reports whether git would take dir for a git directory.
func isGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if !exists(filepath.Join(dir, name)) {
			return false
		}
	}
	return true
}

// line returns the text of a short regular file without blanks around it, or "".
func line(path string) string { return strings.TrimSpace(text(path, 8192)) }

// text returns the text of a regular file of at most so many bytes, or "".
func text(path string, most int64) string {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return ""
	}
	b, _ := os.ReadFile(path)
	return string(b)
}
