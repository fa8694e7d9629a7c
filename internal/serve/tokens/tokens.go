//go:build unix

package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"asyncrepl/internal/text/pattern"
)

// A Grant is what a token allows.
type Grant struct {
	Tenant string
	Token  string // the name of the token: the start of its hash, which can be logged
}

// A File is a file of tokens that was read. Its methods can be used by several goroutines.
type File struct {
	path  string
	rules Rules

	mu         sync.RWMutex
	entries    []entry
	workspaces map[string]string // the workspace of every tenant since the start, by name
}

// Rules are what the server allows beyond the format of the file.
type Rules struct {
	// Workspace is absolute. A tenant without one in the file gets the directory of its name below
	// it.
	Workspace string
	Single    bool // more than one tenant is an error, ErrManyTenants
}

// An entry is one token.
type entry struct {
	hash      [sha256.Size]byte
	tenant    string
	workspace string // "" if the line names none
	line      int
}

// name returns the name of the token.
func (e entry) name() string { return hex.EncodeToString(e.hash[:8]) }

// Open reads a file of tokens.
func Open(path string, rules Rules) (*File, error) {
	f := &File{path: path, rules: rules, workspaces: make(map[string]string)}
	_, err := f.Reread()
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Reread reads the file again and returns the names of the tokens that it no longer grants. After
// an error everything is as before.
func (f *File) Reread() (removed []string, err error) {
	entries, err := read(f.path)
	if err != nil {
		return nil, fmt.Errorf("reading the tokens in %s: %w", f.path, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	workspaces, err := f.check(entries)
	if err != nil {
		return nil, fmt.Errorf("reading the tokens in %s: %w", f.path, err)
	}
	for _, old := range f.entries {
		if !slices.ContainsFunc(entries, func(e entry) bool { return e.hash == old.hash && e.tenant == old.tenant }) {
			removed = append(removed, old.name())
		}
	}
	f.entries, f.workspaces = entries, workspaces
	return removed, nil
}

// Find returns what a bearer token grants, and whether it grants anything. How long it takes does
// not depend on the token, except on its length.
func (f *File) Find(bearer string) (Grant, bool) {
	hash := sha256.Sum256([]byte(bearer))
	f.mu.RLock()
	defer f.mu.RUnlock()
	found := -1
	for i := range f.entries {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], f.entries[i].hash[:]), i, found)
	}
	if found < 0 {
		return Grant{}, false
	}
	return Grant{Tenant: f.entries[found].tenant, Token: f.entries[found].name()}, true
}

// Workspace returns the workspace of a tenant that the file names, or has named. It may not exist.
func (f *File) Workspace(tenant string) string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.workspaces[tenant]
}

// Tenants returns the tenants that the file names.
func (f *File) Tenants() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var tenants []string
	for _, e := range f.entries {
		if !slices.Contains(tenants, e.tenant) {
			tenants = append(tenants, e.tenant)
		}
	}
	return tenants
}

// New returns a new token for a tenant and the line of the file that grants it. The token begins with the
// name of the tenant and a dot, so that a proxy before several servers can send all requests of a tenant to
// the same one. What follows the last dot is secret. Find knows a token as a whole: the name in it grants
// nothing.
func New(tenant string) (token, line string, err error) {
	if err := checkTenant(tenant); err != nil {
		return "", "", err
	}
	var secret [32]byte
	rand.Read(secret[:])
	token = tenant + ".arepl_" + base64.RawURLEncoding.EncodeToString(secret[:])
	return token, fmt.Sprintf("%s %x", tenant, sha256.Sum256([]byte(token))), nil
}

// tenantNames matches the names that sessions can have, too.
var tenantNames = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

func checkTenant(name string) error {
	if !tenantNames().MatchString(name) {
		return fmt.Errorf("%q is not a tenant's name: 1 to 64 of A-Z a-z 0-9 _ . -, the first a letter or a digit", name)
	}
	return nil
}
