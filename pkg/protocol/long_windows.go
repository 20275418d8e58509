package protocol

// NativeLong is the size of this system's long.
const NativeLong Long = 4
