package pump

const inputQueue = 0x4004667f // FIONREAD
