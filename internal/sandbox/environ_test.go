package sandbox

import (
	"slices"
	"testing"
)

func TestEnvironment(t *testing.T) {
	removed := []string{
		"AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "OPENAI_APIKEY", "GITHUB_TOKEN", "tokens", "NPM_authToken", "PGPASSWORD", "DB_PASSWD",
		"CLIENT_SECRETS", "GOOGLE_APPLICATION_CREDENTIALS", "KEYS", "A__KEY", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "DISPLAY",
	}
	kept := []string{
		"PATH", "HOME", "MONKEY", "KEYBOARD", "KEYMAP", "TOKENIZERS_PARALLELISM", "SECRETARY", "LANG", "PYTHONHASHSEED", "", "PASSED_TOKEN", "DISPLAYED", "S",
	}
	var env []string
	for _, name := range append(slices.Clone(removed), kept...) {
		env = append(env, name+"=a=b\nc")
	}
	gotKept, gotRemoved := Environment(append(env, "GITHUB_TOKEN=again"), []string{"PASSED_TOKEN"})
	slices.Sort(removed)
	if !slices.Equal(gotRemoved, removed) {
		t.Errorf("removed %q, want %q", gotRemoved, removed)
	}
	var want []string
	for _, name := range kept {
		want = append(want, name+"=a=b\nc")
	}
	if !slices.Equal(gotKept, want) {
		t.Errorf("kept %q, want %q", gotKept, want)
	}
}
