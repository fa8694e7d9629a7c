package main

// browse opens an address in the browser of the desktop.
func browse(address string) error { return openWith("open", address) }
