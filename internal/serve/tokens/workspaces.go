//go:build unix

package tokens

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrManyTenants means that the file names more than one tenant, and the rules allow one.
var ErrManyTenants = errors.New("it names more than one tenant")

// check checks the tokens against the rules and returns the workspace of every tenant that is known
// after them. f.mu is held.
func (f *File) check(entries []entry) (map[string]string, error) {
	workspaces, err := named(entries)
	if err != nil {
		return nil, err
	}
	if f.rules.Single && len(workspaces) > 1 {
		return nil, ErrManyTenants
	}
	for tenant, dir := range workspaces {
		if dir == "" {
			workspaces[tenant] = filepath.Join(f.rules.Workspace, tenant)
		}
		if old, known := f.workspaces[tenant]; known && old != workspaces[tenant] {
			return nil, fmt.Errorf("the workspace of %s is %s as long as the server runs: to change it, restart the server", tenant, old)
		}
	}
	for tenant, dir := range f.workspaces {
		workspaces[tenant] = dir
	}
	return workspaces, apart(workspaces)
}

// named returns the workspaces that the lines of each tenant name, or "" if none does.
func named(entries []entry) (map[string]string, error) {
	workspaces := make(map[string]string)
	for _, e := range entries {
		dir := workspaces[e.tenant]
		if dir != "" && e.workspace != "" && dir != e.workspace {
			return nil, fmt.Errorf("line %d: %s has the workspace %s already: a tenant has one", e.line, e.tenant, dir)
		}
		if dir == "" {
			dir = e.workspace
		}
		workspaces[e.tenant] = dir
	}
	return workspaces, nil
}

// Apart returns an error if two tenants share a directory by now, because of links that were made since the
// file was read.
func (f *File) Apart() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return apart(f.workspaces)
}

// apart returns an error if two tenants share a directory.
func apart(workspaces map[string]string) error {
	tenants := slices.Sorted(maps.Keys(workspaces))
	folded := make(map[string]string) // tenants by their names in lower case
	places := make(map[string]string) // tenants by where their workspaces are
	for _, tenant := range tenants {
		other, taken := folded[strings.ToLower(tenant)]
		if taken {
			return fmt.Errorf("the tenants %s and %s differ in case only, which not every file system does", other, tenant)
		}
		folded[strings.ToLower(tenant)] = tenant
		place, err := resolve(workspaces[tenant])
		if err != nil {
			return fmt.Errorf("the workspace of %s: %w", tenant, err)
		}
		if other, taken := places[place]; taken {
			return overlap(tenant, other, workspaces)
		}
		places[place] = tenant
	}
	// Two workspaces overlap if one is among the directories above the other.
	for place, tenant := range places {
		for dir := filepath.Dir(place); ; dir = filepath.Dir(dir) {
			if other, taken := places[dir]; taken && dir != place {
				return overlap(tenant, other, workspaces)
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return nil
}

func overlap(a, b string, workspaces map[string]string) error {
	if b < a {
		a, b = b, a
	}
	return fmt.Errorf("the workspaces of %s (%s) and %s (%s) overlap: give each its own", a, workspaces[a], b, workspaces[b])
}

// resolve returns a path without links. What does not exist yet has none.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		info, err := os.Stat(real)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", path)
		}
		return real, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s is a link that leads nowhere", path)
	}
	parent, err := resolve(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}
