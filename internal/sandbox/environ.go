package sandbox

import (
	"slices"
	"strings"
)

// secretWords are the words of names whose values are probably secret. A word of a name also counts if
// it ends in one of them, as that of PGPASSWORD does, except in KEY: MONKEY is none.
var secretWords = []string{"APIKEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL"}

// addresses are variables that name a socket of an agent, of a desktop or of an editor, or a program
// that asks for passwords. What listens there acts for the person, outside the sandbox.
var addresses = []string{
	"CONTAINER_HOST", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "DISPLAY", "DOCKER_HOST", "GIT_ASKPASS", "GNOME_KEYRING_CONTROL",
	"GPG_AGENT_INFO", "I3SOCK", "ICEAUTHORITY", "KITTY_LISTEN_ON", "NVIM", "NVIM_LISTEN_ADDRESS", "PIPEWIRE_REMOTE", "PULSE_SERVER",
	"SESSION_MANAGER", "SSH_AGENT_PID", "SSH_ASKPASS", "SSH_AUTH_SOCK", "STY", "SUDO_ASKPASS", "SWAYSOCK", "TMUX", "VSCODE_GIT_IPC_HANDLE",
	"VSCODE_IPC_HOOK_CLI", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "WSL_INTEROP", "XAUTHORITY", "XDG_RUNTIME_DIR", "ZELLIJ_SESSION_NAME",
}

// Environment returns the variables that a confined program gets, and the names of those that were
// removed, sorted. Pass names variables to keep although they look like secrets or addresses.
func Environment(env, pass []string) (kept, removed []string) {
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(pass, name) || !secret(name) && !slices.Contains(addresses, name) {
			kept = append(kept, v)
		} else {
			removed = append(removed, name)
		}
	}
	slices.Sort(removed)
	return kept, slices.Compact(removed)
}

// secret reports whether a variable of this name probably holds a secret.
func secret(name string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToUpper(name), "_"), func(word string) bool {
		word = strings.TrimSuffix(word, "S")
		return word == "KEY" || slices.ContainsFunc(secretWords, func(s string) bool { return strings.HasSuffix(word, s) })
	})
}
