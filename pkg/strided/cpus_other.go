//go:build !linux

package strided

import "runtime"

func cpus() int { return min(mostWorkers, runtime.NumCPU()) }
