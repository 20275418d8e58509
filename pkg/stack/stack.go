// Package stack makes a goroutine's stack large enough for C's signal handlers.
package stack

// Free is how many bytes of the stack are free after [Reserve], at least.
const Free = 192 << 10

// Reserve grows the stack of the goroutine to Free bytes below the caller's frame. It is written in assembly since such a
// frame in Go would be set to zero at each call; where they are free already, this costs a comparison.
func Reserve()
