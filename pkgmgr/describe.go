package pkgmgr

import (
	"context"
	"strconv"
)

// A Description says which Python is used, or would be on the first need.
type Description struct {
	Python  string // its path
	Version string // "3.11"; empty: only a start of it would tell
	Setting string // the variable that named it; empty: the workspace's own
	Dir     string // the environment's; empty: it is none's
	There   bool   // it exists; else Dir is made on the first need
	Base    string // what Dir would be made from; empty: there is no python3
	UV      string // the path of uv, or of a shim for it; empty: there is none
}

// Describe starts nothing and only looks at files. The error says what can be
// seen to be wrong, and names the remedy.
func (m *Manager) Describe() (Description, error) {
	var d Description
	d.UV, _ = m.lookPath("uv")
	pl := m.found.Load()
	if pl == nil || !isFile(pl.python) {
		p, err := m.place()
		if err != nil {
			return d, err
		}
		pl = &p
	}
	d.Python, d.Setting, d.Dir, d.There = pl.python, pl.setting, pl.dir, isFile(pl.python)
	look := d.Python
	if !d.There && !pl.there {
		path, ok := m.python3()
		if !ok {
			return d, nil
		}
		d.Base, look = path, path
	}
	found, ok := recorded(look)
	if pl.there && (ok || !isProgram(look)) {
		if err := m.check(context.Background(), *pl); err != nil { // starts nothing where the files tell
			return d, err
		}
	}
	if ok {
		d.Version = strconv.Itoa(found.major) + "." + strconv.Itoa(found.minor)
	}
	return d, nil
}
