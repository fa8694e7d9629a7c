package engine

import (
	"cmp"
	"log/slog"
	"os"

	"asyncrepl/internal/process"
	"asyncrepl/internal/waiting"
)

// platform says what the kernel lets an engine see.
func platform(c process.Census, does func(works bool, what, lack string)) {
	does(waiting.Sees(cmp.Or(c.Guard, os.Getpid())), "prompts of programs are seen",
		"the kernel does not show what programs wait for, so prompts of shell programs are not seen")
	does(c.Adopts, "processes that left their session are found",
		"this server can't adopt orphans, so processes that left their session are found by their marks only")
}

// warn logs what no engine can do on this platform: on Linux there is nothing.
func warn(*slog.Logger) {}
