package strided

import (
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

var granted = math.MaxInt

// ReadGrants reads how many CPUs' time the process's control groups grant. Later copies use the result. It opens files,
// which a fork at that time would inherit. Don't call it during a copy.
func ReadGrants() { granted = grantedCPUs("/proc/self/cgroup", "/sys/fs/cgroup") }

// cpus returns how many CPUs a copy may use: those that the calling thread may run on, up to the granted number and to
// MostWorkers.
func cpus() int {
	return min(MostWorkers, affinity(), granted)
}

// affinity returns how many CPUs the calling thread may run on now. Go knows only their number at its start.
func affinity() int {
	var set [128]uint64
	n, _, failed := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
	if failed != 0 {
		return runtime.NumCPU()
	}
	count := 0
	for _, word := range set[:n/8] {
		count += bits.OnesCount64(word)
	}
	return count
}

// grantedCPUs returns how many CPUs' time the process's control groups grant, rounded up. The file `groups` lists the
// groups (cgroups(7)). Their folders are below root; in a container, root itself is the process's group.
func grantedCPUs(groups, root string) int {
	least := math.MaxInt
	for line := range strings.Lines(read(groups)) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(line, ":")
		isV2 := controllers == ""
		if !isV2 && !slices.Contains(strings.Split(controllers, ","), "cpu") {
			continue
		}
		for group = strings.TrimRight(group, "/"); ; group = group[:strings.LastIndexByte(group, '/')] {
			if isV2 {
				least = min(least, quota(read(root+group+"/cpu.max")))
			} else {
				folder := root + "/cpu" + group
				least = min(least, quota(read(folder+"/cpu.cfs_quota_us")+read(folder+"/cpu.cfs_period_us")))
			}
			if !strings.Contains(group, "/") {
				break
			}
		}
	}
	return least
}

// quota reads two numbers, the granted microseconds and the microseconds of their period, and returns the CPUs that
// they amount to.
func quota(text string) int {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return math.MaxInt
	}
	granted, err := strconv.ParseInt(fields[0], 10, 64)
	period, failed := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || failed != nil || granted <= 0 || period <= 0 {
		return math.MaxInt // "max" and -1 mean no limit
	}
	return int((granted-1)/period + 1)
}

// read returns the content of a small file, or "" if it can't be read.
func read(path string) string {
	file, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer syscall.Close(file)
	var text [8 << 10]byte
	n, _ := syscall.Read(file, text[:])
	return string(text[:max(n, 0)])
}
