package pump

import "golang.org/x/sys/unix"

const inputQueue = unix.TIOCINQ
