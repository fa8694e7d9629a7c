package process

import "os"

// becomeSubreaper has orphans come to us, which they don't here.
func becomeSubreaper() bool { return false }

// lingers tells whether something is left of a session whose leader has ended.
func lingers(session int) bool { return len(walk(session, nil)) > 0 }

func childSignals() (<-chan os.Signal, func()) { return nil, func() {} }

func shed() {}

// settleAside is for looks that take descriptors, which they don't here.
func settleAside() {}
func clearAside()  {}
