package process

import "golang.org/x/sys/unix"

const inputQueue = unix.TIOCINQ
