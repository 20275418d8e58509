//go:build !linux

package strided

import "runtime"

// ReadGrants does nothing: control groups are Linux's.
func ReadGrants() {}

func cpus() int { return min(mostWorkers, runtime.NumCPU()) }
