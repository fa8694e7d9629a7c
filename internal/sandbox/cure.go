//go:build linux

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
)

// Missing says what to do if there is no bubblewrap.
const Missing = "there is no program bwrap on the PATH: install the package bubblewrap, by apt (Debian, Ubuntu), dnf (Fedora, RHEL), " +
	"zypper (openSUSE), pacman (Arch), apk (Alpine) or nix-env (nixpkgs.bubblewrap)"

// Cure says what to do if bubblewrap has printed output instead of starting a program, or is "" if that is
// not known.
func Cure(output string) string { return cure("/", output) }

// cure is Cure for a system whose files are below root. The messages are those of bubblewrap 0.4.0 to 0.11.
func cure(root, output string) string {
	is := func(name, value string) bool {
		b, err := os.ReadFile(filepath.Join(root, "proc/sys", name))
		return err == nil && strings.TrimSpace(string(b)) == value
	}
	exists := func(name string) bool {
		_, err := os.Lstat(filepath.Join(root, name))
		return err == nil
	}
	has := func(texts ...string) bool {
		for _, text := range texts {
			if strings.Contains(output, text) {
				return true
			}
		}
		return false
	}
	refused := has("No permissions to create new namespace", "No permissions to creating new namespace", "Creating new namespace failed", "setting up uid map",
		"loopback: Failed") // AppArmor of Ubuntu 24.04 makes the namespace and takes its privileges
	unmounted := has("Can't mount proc", "Can't mount devpts", "pivot_root", "Failed to make / slave", "Failed to mount tmpfs")
	switch {
	case has("Unknown option"):
		return "this bwrap is older than 0.4.0: install a newer one"
	case refused && is("kernel/apparmor_restrict_unprivileged_userns", "1"):
		return "AppArmor lets no program make namespaces for users: let bwrap, by these five lines in /etc/apparmor.d/bwrap, and run \"systemctl reload apparmor\"\n" + profile
	case refused && is("kernel/unprivileged_userns_clone", "0"):
		return "namespaces for users are switched off: run \"sysctl -w kernel.unprivileged_userns_clone=1\""
	case refused && is("user/max_user_namespaces", "0"):
		return "namespaces for users are switched off: run \"sysctl -w user.max_user_namespaces=15000\""
	case refused && has("ENOSPC"):
		return "too many namespaces are in use, or nested: see the limits in /proc/sys/user"
	case (refused || unmounted) && (exists(".dockerenv") || exists("run/.containerenv") || has("Can't mount proc")):
		return "this is a container, which confines its programs already: set the sandbox to none, or give the container namespaces " +
			"(docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined; " +
			"podman run --security-opt unmask=ALL)"
	case refused:
		return "this system lets no program make namespaces for users: allow them, or run the server in a container. In a container set the sandbox to none"
	}
	return ""
}

// profile lets bwrap make namespaces on a system on which AppArmor lets no other program.
const profile = `abi <abi/4.0>,
include <tunables/global>
profile bwrap /usr/bin/bwrap flags=(unconfined) {
  userns,
}`
