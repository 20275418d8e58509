//go:build !linux

package strided

import "runtime"

// ReadGrants does nothing: only Linux has control groups.
func ReadGrants() {}

func cpus() int { return min(MostWorkers, runtime.NumCPU()) }
