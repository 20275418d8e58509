//go:build !linux

package strided

import "runtime"

// ReadGrants is for Linux.
func ReadGrants() {}

func cpus() int { return min(mostWorkers, runtime.NumCPU()) }
