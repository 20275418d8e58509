package protocol

// NativeLong is this system's.
const NativeLong Long = 4
