package engine

import (
	"errors"
	"log/slog"

	"asyncrepl/internal/process"
	"asyncrepl/internal/sandbox"
)

const lacks = "macOS shows less of a program than Linux: a shell program that waits for a line is shown as running, with its last output; " +
	"one that waits for a password or a key is inferred from its terminal's mode, and its reply says so; " +
	"processes that left their session are not found when their job ends"

// canLimitMemory returns why the memory of a session can't be limited, or nil.
func canLimitMemory() error { return errors.New("macOS can't limit the memory of a process") }

// platform calls does for each feature that depends on the kernel.
func platform(_ process.Census, does func(works bool, what, lack string)) { does(false, "", lacks) }

// unprotected says of each read-only seal that does not hold what jobs can do: there is no sandbox.
func unprotected([]sandbox.Seal) []string { return nil }

// warn logs the features that this platform lacks.
func warn(log *slog.Logger) { log.Warn("some features do not work on this platform", "limits", lacks) }
