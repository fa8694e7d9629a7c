package engine

import (
	"cmp"
	"log/slog"
	"os"

	"asyncrepl/internal/process"
	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/terminal/waiting"
)

// canLimitMemory returns why the memory of a session can't be limited, or nil.
func canLimitMemory() error { return nil }

// platform calls does for each feature that depends on the kernel.
func platform(c process.Census, does func(works bool, what, lack string)) {
	does(waiting.Sees(cmp.Or(c.Guard, os.Getpid())), "prompts of programs are seen",
		"the kernel does not show what programs wait for, so prompts of shell programs are not seen")
	does(c.Adopts, "processes that left their session are found",
		"this server can't adopt orphans, so processes that left their session are found by their marks only")
}

// unprotected says of each read-only seal that does not hold what jobs can do.
func unprotected(seals []sandbox.Seal) []string { return sandbox.Unprotected(seals) }

// warn logs the features that this platform lacks: on Linux, none.
func warn(*slog.Logger) {}
