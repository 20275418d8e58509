package main

import (
	"math"
	"runtime"
	"sync"
	"time"
)

// startRuntime has the runtime take now what it would take later, when a limit may forbid it.
func startRuntime(processors int) {
	useProcessors(processors)
	startPoller()
}

// useProcessors gives Go so many processors, and starts threads for them.
func useProcessors(count int) {
	runtime.GOMAXPROCS(count)
	startThreads(3 * count) // those that run, those that lent their processor, those on their way to idle
}

// startThreads has the runtime start its threads now, while the limits allow them: it ends the process where a
// later one can't start. It keeps those that are idle.
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

// startPoller has the runtime open the two descriptors with which it waits for timers. It would open them for its first
// timer, which the garbage collector sets at some time, and end the process if none are left then. And some ms later it
// has a thread wait there, for a timer that never comes: if none did, the runtime would look there every 10 ms, and end a
// process in which the program has closed the two, as subprocess does before it starts a program.
func startPoller() {
	time.AfterFunc(math.MaxInt64, func() {})
}
