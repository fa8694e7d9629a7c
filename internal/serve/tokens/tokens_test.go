//go:build unix

package tokens_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/serve/tokens"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// A grant is a new token and the line that grants it.
type grant struct{ token, line string }

func newGrant(t *testing.T, tenant string) grant {
	t.Helper()
	token, line := must.Get2(tokens.New(tenant))(t)
	return grant{token, line}
}

// write writes a file of tokens as a person should.
func write(t *testing.T, path string, lines ...string) string {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

func open(t *testing.T, rules tokens.Rules, lines ...string) (*tokens.File, error) {
	t.Helper()
	return tokens.Open(write(t, filepath.Join(t.TempDir(), "tokens"), lines...), rules)
}

func TestTokenFindsItsTenant(t *testing.T) {
	alice, bob, bob2 := newGrant(t, "alice"), newGrant(t, "bob"), newGrant(t, "bob")
	file, err := open(t, tokens.Rules{Workspace: "/srv"},
		"# people", "", alice.line, "  "+bob.line+"\t /home/bob/my work  ", bob2.line)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, g := range []grant{alice, bob, bob2} {
		got, ok := file.Find(g.token)
		if tenant, _, _ := strings.Cut(g.line, " "); !ok || got.Tenant != tenant {
			t.Errorf("got %+v, %v; want %s", got, ok, tenant)
		}
		if names[got.Token] || len(got.Token) != 16 || !strings.Contains(g.line, " "+got.Token) {
			t.Errorf("%q does not name the token of %s", got.Token, g.line)
		}
		names[got.Token] = true
	}
	for _, wrong := range []string{"", "x", alice.token[1:], alice.token + "x", alice.line, alice.line[6:], strings.Repeat("x", 1<<20)} {
		if got, ok := file.Find(wrong); ok {
			t.Errorf("%.20q finds %+v", wrong, got)
		}
	}
	for tenant, want := range map[string]string{"alice": "/srv/alice", "bob": "/home/bob/my work", "carol": ""} {
		if got := file.Workspace(tenant); got != want {
			t.Errorf("the workspace of %s is %q, want %q", tenant, got, want)
		}
	}
}

// Each bad line is refused with its number, and no refusal shows what may be a token.
func TestBadLineIsRefused(t *testing.T) {
	good, secret := newGrant(t, "good"), newGrant(t, "alice")
	_, hash, _ := strings.Cut(secret.line, " ")
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"no token":              {nil, "it has no token"},
		"only comments":         {[]string{"# " + secret.line}, "it has no token"},
		"no hash":               {[]string{good.line, "alice"}, "line 2: what follows alice is not a SHA-256"},
		"a token for its hash":  {[]string{"alice " + secret.token}, "line 1: what follows alice is not a SHA-256"},
		"half a hash":           {[]string{"alice " + hash[:32]}, "is not a SHA-256"},
		"not hexadecimal":       {[]string{"alice " + strings.Repeat("g", 64)}, "is not a SHA-256"},
		"a path as tenant":      {[]string{"../alice " + hash}, `"../alice" is not a tenant's name`},
		"dots as tenant":        {[]string{".. " + hash}, `".." is not a tenant's name`},
		"a long tenant":         {[]string{strings.Repeat("a", 65) + " " + hash}, "is not a tenant's name"},
		"the same token":        {[]string{"alice " + hash, "", "bob " + hash}, "lines 1 and 3 have the same token"},
		"a relative workspace":  {[]string{secret.line + " work"}, `the workspace "work" is not an absolute path`},
		"another case":          {[]string{secret.line, newGrant(t, "Alice").line}, "the tenants Alice and alice differ in case only"},
		"two workspaces":        {[]string{secret.line + " /a", newGrant(t, "alice").line + " /b"}, "line 2: alice has the workspace /a already"},
		"a file as a workspace": {[]string{secret.line + " /etc/passwd"}, "not a directory"},
		"below a file":          {[]string{secret.line + " /etc/passwd/x"}, "not a directory"},
	} {
		_, err := open(t, tokens.Rules{Workspace: "/srv"}, c.lines...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), secret.token) {
			t.Errorf("%s: %v shows the token", name, err)
		}
	}
}

// The file that is read is a private one of this user.
func TestFileThatOthersCanUseIsRefused(t *testing.T) {
	line := newGrant(t, "alice").line
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want string
	}{
		"missing":   {func(t *testing.T, path string) {}, "no such file"},
		"directory": {func(t *testing.T, path string) { must.Do(t, os.Mkdir(path, 0o700)) }, "it is a directory: name the file"},
		"FIFO":      {func(t *testing.T, path string) { must.Do(t, syscall.Mkfifo(path, 0o600)) }, "not a regular file"},
		"link": {func(t *testing.T, path string) { must.Do(t, os.Symlink(write(t, path+"2", line), path)) },
			"it is a symbolic link"},
		"readable by the group": {func(t *testing.T, path string) { must.Do(t, os.Chmod(write(t, path, line), 0o640)) },
			"its mode is 0640"},
		"readable by all": {func(t *testing.T, path string) { must.Do(t, os.Chmod(write(t, path, line), 0o604)) },
			"chmod 600"},
		"writable by the group": {func(t *testing.T, path string) { must.Do(t, os.Chmod(write(t, path, line), 0o620)) },
			"its mode is 0620"},
		"another user's": {func(t *testing.T, path string) {
			needtest.Right(t, "give a file away", os.Chown(write(t, path, line), 12345, -1), nil)
		}, "it belongs to user 12345"},
		"large": {func(t *testing.T, path string) { must.Do(t, os.Truncate(write(t, path, line), 10<<30)) }, "is larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokens")
			c.make(t, path)
			if _, err := tokens.Open(path, tokens.Rules{Workspace: "/srv"}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := open(t, tokens.Rules{Workspace: "/srv"}, line); err != nil {
		t.Error(err)
	}
}

// No tenant's workspace is another's or within another's, however it is named.
func TestOverlappingWorkspacesAreRefused(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(dir+"/w/real/deep", 0o700))
	must.Do(t, os.MkdirAll(dir+"/w/real2", 0o700))
	must.Do(t, os.Symlink("real", dir+"/w/link"))
	must.Do(t, os.Symlink(dir+"/w", dir+"/w/real2/up"))
	must.Do(t, os.Symlink(dir+"/nowhere", dir+"/w/dangling"))
	for _, c := range []struct {
		a, b    string
		overlap bool
	}{
		{"/w/a", "/w/b", false},
		{"/w/a", "/w/ab", false},
		{"/w/real", "/w/real2", false},
		{"/w/new/a", "/w/new/b", false},
		{"/w/a", "/w/a", true},
		{"/w/a", "/w/a/", true},
		{"/w/a", "/w/b/../a", true},
		{"/w/a", "/w/a/b", true},
		{"/w/a/b/c", "/w/a", true},
		{"/w", "/w/real/deep", true},
		{"/w/link", "/w/real", true},
		{"/w/link/deep", "/w/real", true},
		{"/w/real", "/w/link/new", true},
		{"/w/real2/up/real/deep", "/w/link", true},
		{"/w/real2/up", "/w/b", true},
	} {
		_, err := open(t, tokens.Rules{Workspace: dir}, newGrant(t, "a").line+" "+dir+c.a, newGrant(t, "b").line+" "+dir+c.b)
		if got := err != nil; got != c.overlap || got && !strings.Contains(err.Error(), "the workspaces of a ("+dir) {
			t.Errorf("%s and %s: %v", c.a, c.b, err)
		}
	}
	// A tenant's own directory counts, as one below the server's workspace.
	if _, err := open(t, tokens.Rules{Workspace: dir + "/w"}, newGrant(t, "real").line, newGrant(t, "b").line+" "+dir+"/w/link/x"); err == nil {
		t.Error("a workspace within the directory of another tenant is accepted")
	}
	if _, err := open(t, tokens.Rules{Workspace: dir}, newGrant(t, "a").line+" "+dir+"/w/dangling/x"); err == nil || !strings.Contains(err.Error(), "leads nowhere") {
		t.Errorf("a link that leads nowhere: %v", err)
	}
}

func TestSecondTenantMustBeAllowed(t *testing.T) {
	a, a2, b := newGrant(t, "a"), newGrant(t, "a"), newGrant(t, "b")
	if _, err := open(t, tokens.Rules{Workspace: "/srv", Single: true}, a.line, a2.line); err != nil {
		t.Error(err)
	}
	if _, err := open(t, tokens.Rules{Workspace: "/srv", Single: true}, a.line, b.line); !errors.Is(err, tokens.ErrManyTenants) {
		t.Errorf("got %v", err)
	}
}

func TestReread(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens")
	a, b, c := newGrant(t, "a"), newGrant(t, "b"), newGrant(t, "c")
	file := must.Get(tokens.Open(write(t, path, a.line+" "+dir+"/a", b.line), tokens.Rules{Workspace: dir}))(t)
	finds := func(want ...grant) {
		t.Helper()
		for _, g := range []grant{a, b, c} {
			if _, ok := file.Find(g.token); ok != slices.Contains(want, g) {
				t.Errorf("%s: found is %v", g.line, ok)
			}
		}
	}
	finds(a, b)
	nameOfA, _ := file.Find(a.token)

	// A broken file changes nothing.
	for _, broken := range [][]string{
		{},
		{a.line, b.line[:len(b.line)-1]},
		{a.line + " " + dir + "/elsewhere", b.line}, // jobs of a run in its workspace
		{b.line, c.line + " " + dir + "/b"},
	} {
		removed, err := file.Reread()
		if removed != nil || err != nil {
			t.Errorf("an unchanged file removes %v, %v", removed, err)
		}
		write(t, path, broken...)
		if removed, err := file.Reread(); err == nil || removed != nil {
			t.Errorf("%q: removed %v, %v", broken, removed, err)
		}
		finds(a, b)
		write(t, path, a.line+" "+dir+"/a", b.line)
	}
	must.Do(t, os.Remove(path))
	if _, err := file.Reread(); err == nil {
		t.Error("a file that is gone is read")
	}
	finds(a, b)

	write(t, path, c.line, b.line)
	removed, err := file.Reread()
	if err != nil || !slices.Equal(removed, []string{nameOfA.Token}) {
		t.Errorf("removed %v, %v; want %v", removed, err, nameOfA.Token)
	}
	finds(b, c)
}

// A token that goes to another tenant is removed from its own.
func TestTokenThatMoves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	a := newGrant(t, "a")
	file := must.Get(tokens.Open(write(t, path, a.line), tokens.Rules{Workspace: "/srv"}))(t)
	before, _ := file.Find(a.token)
	write(t, path, "c"+a.line[1:])
	if removed, err := file.Reread(); err != nil || !slices.Equal(removed, []string{before.Token}) {
		t.Errorf("removed %v, %v", removed, err)
	}
	if got, _ := file.Find(a.token); got.Tenant != "c" {
		t.Errorf("the token is %+v", got)
	}
}

// The jobs of a removed tenant may run on, so no other tenant gets its workspace.
func TestWorkspaceOfARemovedTenantIsKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens")
	a, b := newGrant(t, "a"), newGrant(t, "b")
	file := must.Get(tokens.Open(write(t, path, a.line, b.line), tokens.Rules{Workspace: dir}))(t)
	write(t, path, b.line)
	_ = must.Get(file.Reread())(t)
	write(t, path, b.line, newGrant(t, "d").line+" "+dir+"/a/b")
	if _, err := file.Reread(); err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("the workspace of a removed tenant is given to another: %v", err)
	}
}

func TestNewRefusesABadTenant(t *testing.T) {
	for _, name := range []string{"", "a b", "../a", "-a", ".a", "a/b", "ä", strings.Repeat("a", 65)} {
		if token, line, err := tokens.New(name); err == nil || token != "" || line != "" {
			t.Errorf("%q: %v", name, err)
		}
	}
	if first, second := newGrant(t, "a"), newGrant(t, "a"); first == second || len(first.token) < 40 {
		t.Errorf("tokens %q and %q", first.token, second.token)
	}
}

// A token begins with the name of its tenant, whatever that is, and a dot. No part of the rest has a dot, so
// the last one ends the name.
func TestTokenNamesItsTenant(t *testing.T) {
	for _, tenant := range []string{"alice", "0", "a.b.c", "Team_1-x.", "a..", "arepl_a", strings.Repeat("a", 64)} {
		g := newGrant(t, tenant)
		last := strings.LastIndex(g.token, ".")
		if last < 0 || g.token[:last] != tenant || len(g.token)-last < 40 {
			t.Errorf("the token of %s is %q", tenant, g.token)
		}
		if strings.Contains(g.line, g.token[last:]) {
			t.Errorf("the line %q shows the token", g.line)
		}
	}
}

// The name in a token grants nothing: the same secret after another name is another token. Tokens of earlier
// versions have no name, and are found as before.
func TestNameInATokenGrantsNothing(t *testing.T) {
	alice, bob := newGrant(t, "alice"), newGrant(t, "bob")
	old := "arepl_" + strings.Repeat("x", 43)
	file := must.Get(open(t, tokens.Rules{Workspace: "/srv"}, alice.line, bob.line, fmt.Sprintf("carol %x", sha256.Sum256([]byte(old)))))(t)
	_, secret, _ := strings.Cut(alice.token, ".")
	for _, wrong := range []string{secret, "." + secret, "bob." + secret, "alice.alice." + secret, "Alice." + secret, "carol." + old, "alice"} {
		if got, ok := file.Find(wrong); ok {
			t.Errorf("%.20q finds %+v", wrong, got)
		}
	}
	for token, tenant := range map[string]string{alice.token: "alice", old: "carol"} {
		if got, ok := file.Find(token); !ok || got.Tenant != tenant {
			t.Errorf("the token of %s finds %+v, %v", tenant, got, ok)
		}
	}
}

func Example() {
	token, line, _ := tokens.New("alice")
	path := filepath.Join(os.TempDir(), fmt.Sprint("tokens-", os.Getpid()))
	defer os.Remove(path)
	if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	file, err := tokens.Open(path, tokens.Rules{Workspace: "/srv"})
	if err != nil {
		fmt.Println(err)
		return
	}
	grant, ok := file.Find(token)
	fmt.Println(grant.Tenant, ok, file.Workspace(grant.Tenant))
	_, ok = file.Find("guess")
	fmt.Println(ok)
	// Output:
	// alice true /srv/alice
	// false
}

// A workspace that was replaced by a link since the file was read is found without another reading.
func TestWorkspacesStayApart(t *testing.T) {
	dir := t.TempDir()
	file := must.Get(open(t, tokens.Rules{Workspace: dir}, newGrant(t, "alice").line, newGrant(t, "bob").line))(t)
	must.Do(t, file.Apart())
	must.Do(t, os.Mkdir(filepath.Join(dir, "bob"), 0o700))
	must.Do(t, os.Symlink("bob", filepath.Join(dir, "alice")))
	if err := file.Apart(); err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("got %v", err)
	}
}
