// Package stack makes a goroutine's stack large enough for C's signal handlers.
package stack

// Free is the lower bound of the stack's free bytes after [Reserve].
const Free = 192 << 10

// Reserve grows the goroutine's stack until Free bytes are free below the caller's frame. If they are free already, it
// costs one comparison. It is written in assembly since Go would zero a frame of that size at each call.
func Reserve()
