// Package stack makes a goroutine's stack large enough for C's signal handlers.
package stack

// Room is how many bytes are free after [Reserve], at least.
const Room = 192 << 10

// Reserve grows the stack of the goroutine to Room bytes below the caller's frame. It is written in assembly since such a
// frame in Go would be set to zero at each call; where there is room already, this costs a comparison.
func Reserve()
