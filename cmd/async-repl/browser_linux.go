package main

import (
	"errors"
	"os"
)

// browse opens an address in the browser of the desktop. Without a desktop it opens none: xdg-open would
// start a browser for terminals, which would take this one.
func browse(address string) error {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return errors.New("there is no desktop")
	}
	return openWith("xdg-open", address)
}
