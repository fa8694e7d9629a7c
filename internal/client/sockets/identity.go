//go:build unix

package sockets

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// identityLen is the number of characters of an identity. The first workspaceLen are the same for all
// engines of a workspace, so that each finds the others without waking those of other workspaces.
const (
	identityLen  = 24
	workspaceLen = 8
)

// Identity returns the identity of engines that have the same configuration and run at the same
// place, for the same user and since the same boot. config is what configures an engine, in a form
// that JSON keeps. Only engines in the same namespaces are the same: in another container the same
// path can be another directory.
func Identity(workspace, virtualEnv, condaPrefix string, config any) (string, error) {
	spaces, err := namespaces("self")
	if err != nil {
		return "", err
	}
	boot, err := BootID()
	if err != nil {
		return "", err
	}
	workspace = Resolve(workspace)
	parts, err := json.Marshal([]any{os.Getuid(), boot, spaces, workspace, virtualEnv, condaPrefix, config})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%.*x%.*x", workspaceLen/2, sha256.Sum256([]byte(workspace)), (identityLen-workspaceLen)/2, sha256.Sum256(parts)), nil
}

// Resolve returns a path without links, or the path itself if that can't be found out.
func Resolve(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}
