// A Go library next to dlpack's core: a second Go runtime in the process, as busy as it can be. It uses signals as any
// Go program does: it preempts by SIGURG, faults and recovers, and takes SIGUSR2 by os/signal.
package main

import "C"

import (
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
)

var (
	rounds, panics, signals atomic.Int64
	garbage                 atomic.Pointer[[]byte]
)

// work starts goroutines that allocate, collect garbage, loop without a call and panic, until the process ends.
//
//export work
func work(count C.int) {
	for range count {
		go func() {
			for {
				turn()
			}
		}()
	}
}

// turn returns the sum of 0 to 999,999.
//
//export turn
func turn() C.longlong {
	sum := 0
	for i := range 1_000_000 {
		sum += i
	}
	memory := make([]byte, 1<<20)
	garbage.Store(&memory)
	fault()
	if rounds.Add(1)%8 == 0 {
		runtime.GC()
	}
	return C.longlong(sum)
}

// fault reads at NULL, which raises SIGSEGV, and recovers.
func fault() {
	defer func() {
		if recover() != nil {
			panics.Add(1)
		}
	}()
	var nothing *int
	*nothing++
}

// take has Go take SIGUSR2 from here on.
//
//export take
func take() {
	taken := make(chan os.Signal, 100)
	signal.Notify(taken, syscall.SIGUSR2)
	go func() {
		for range taken {
			signals.Add(1)
		}
	}()
}

//export counted
func counted(done, recovered, taken *C.longlong) {
	*done, *recovered, *taken = C.longlong(rounds.Load()), C.longlong(panics.Load()), C.longlong(signals.Load())
}

func main() {}
