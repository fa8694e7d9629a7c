package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/serve/tokens"
)

// Standard output is a line for the file of tokens and nothing else; the token itself is on stderr.
func TestTokenPrintsALineForTheFile(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"token", "alice"}, nil, nopCloser{&out}, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	said := strings.Split(strings.TrimSuffix(errs.String(), "\n"), "\n")
	secret := said[len(said)-1]
	if !strings.HasPrefix(secret, "alice.") {
		t.Errorf("the token %q does not begin with the tenant", secret)
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := tokens.Open(path, tokens.Rules{Workspace: "/srv"})
	if err != nil {
		t.Fatalf("%v: %q", err, out.String())
	}
	if grant, ok := file.Find(secret); !ok || grant.Tenant != "alice" {
		t.Errorf("the last line of stderr, %q, is not the token: %+v", secret, grant)
	}
	if strings.Contains(out.String(), secret) {
		t.Errorf("the line holds the token: %q", out.String())
	}
}

func TestTokenTakesOneTenant(t *testing.T) {
	for _, args := range [][]string{{"token"}, {"token", "a", "b"}, {"token", "../a"}, {"token", "-a"}} {
		var out, errs bytes.Buffer
		code := run(t.Context(), args, nil, nopCloser{&out}, &errs)
		if code != 2 || out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, out.String(), errs.String())
		}
	}
}
