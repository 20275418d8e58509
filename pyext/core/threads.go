package main

import (
	"math"
	"runtime"
	"sync"
	"time"
)

// startRuntime makes the runtime start threads and open descriptors now, since a limit may forbid it later.
func startRuntime(processors int) {
	useProcessors(processors)
	startPoller()
}

// useProcessors sets GOMAXPROCS and starts the threads for that many processors.
func useProcessors(count int) {
	runtime.GOMAXPROCS(count)
	startThreads(3 * count) // threads that run, that lent their processor, that are about to idle
}

// startThreads makes the runtime start `count` threads now, while the limits allow them: the runtime ends the process
// if a later thread can't start. It keeps idle threads.
func startThreads(count int) {
	var started, ended sync.WaitGroup
	started.Add(count)
	for range count {
		ended.Go(func() {
			runtime.LockOSThread()
			started.Done()
			started.Wait()
			runtime.UnlockOSThread()
		})
	}
	ended.Wait()
}

// startPoller makes the runtime open the two descriptors with which it waits for timers. Otherwise it would open them
// for its first timer, which the garbage collector sets at some time, and end the process if no descriptor is left
// then.
//
// A few ms later, a thread waits on the descriptors, for a timer that never fires. Without such a thread, the runtime
// would check the descriptors every 10 ms. It would end a process whose program has closed both, as subprocess does
// before it starts a program.
func startPoller() {
	time.AfterFunc(math.MaxInt64, func() {})
}
