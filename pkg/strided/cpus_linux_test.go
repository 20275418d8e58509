package strided

import (
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCPUsAreThoseThatTheControlGroupsGrant(t *testing.T) {
	type files = map[string]string
	for _, test := range []struct {
		name, groups string
		files        files
		want         int
	}{
		{"no groups are known", "", nil, math.MaxInt},
		{"the group's folder is missing", "0::/a/b\n", nil, math.MaxInt},
		{"no limit", "0::/\n", files{"cpu.max": "max 100000\n"}, math.MaxInt},
		{"two CPUs", "0::/\n", files{"cpu.max": "200000 100000\n"}, 2},
		{"a part of a CPU is one to use", "0::/\n", files{"cpu.max": "1000 100000\n"}, 1},
		{"one and a half are two to use", "0::/a\n", files{"a/cpu.max": "150000 100000\n"}, 2},
		{"the tightest group counts", "0::/a/b/c\n", files{"cpu.max": "900000 100000\n", "a/cpu.max": "300000 100000\n",
			"a/b/cpu.max": "max 100000\n", "a/b/c/cpu.max": "400000 100000\n"}, 3},
		{"in a container its own group is the root", "0::/docker/1\n", files{"cpu.max": "400000 100000\n"}, 4},
		{"a group outside what the process sees", "0::/../../a\n", files{"cpu.max": "400000 100000\n"}, 4},
		{"nonsense is no limit", "0::/\n", files{"cpu.max": "many\n"}, math.MaxInt},
		{"a period of 0 is no limit", "0::/\n", files{"cpu.max": "1 0\n"}, math.MaxInt},
		{"version 1", "3:cpuset:/\n2:cpuacct,cpu:/a\n1:name=systemd:/\n0::/\n", files{"cpu/a/cpu.cfs_quota_us": "250000\n",
			"cpu/a/cpu.cfs_period_us": "100000\n", "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3},
		{"version 1, with a group of another controller", "2:cpuset:/b\n1:cpu:/a\n", files{
			"cpu/b/cpu.cfs_quota_us": "100000\n", "cpu/b/cpu.cfs_period_us": "100000\n",
			"cpu/a/cpu.cfs_quota_us": "300000\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, 3},
		{"version 1 without a limit", "1:cpu:/\n", files{"cpu/cpu.cfs_quota_us": "-1\n",
			"cpu/cpu.cfs_period_us": "100000\n"}, math.MaxInt},
	} {
		t.Run(test.name, func(t *testing.T) {
			root, groups := filepath.Join(t.TempDir(), "cgroup"), filepath.Join(t.TempDir(), "groups")
			write(t, groups, test.groups)
			for name, text := range test.files {
				write(t, filepath.Join(root, name), text)
			}
			if got := grantedCPUs(groups, root); got != test.want {
				t.Errorf("%d; want %d", got, test.want)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func FuzzQuota(f *testing.F) {
	f.Add("max 100000\n")
	f.Add("-1\n100000\n")
	f.Add("150000 100000")
	f.Add("9223372036854775807 1")
	f.Add("9223372036854775808 10")
	f.Add("10 9223372036854775808")
	f.Add("1 0")
	f.Add("0 100000")
	f.Add("+2 01 3")
	f.Fuzz(func(t *testing.T, text string) {
		want := math.MaxInt
		if fields := strings.Fields(text); len(fields) == 2 {
			granted, ok := new(big.Int).SetString(fields[0], 10)
			period, alsoOK := new(big.Int).SetString(fields[1], 10)
			if ok && alsoOK && granted.IsInt64() && period.IsInt64() && granted.Sign() > 0 && period.Sign() > 0 {
				whole, rest := new(big.Int).QuoRem(granted, period, new(big.Int))
				want = int(whole.Int64())
				if rest.Sign() > 0 {
					want++
				}
			}
		}
		if got := quota(text); got != want {
			t.Fatalf("%q: %d; want %d", text, got, want)
		}
	})
}

func TestThereIsACPUToCopyWith(t *testing.T) {
	if n := cpus(); n < 1 || n > MostWorkers {
		t.Errorf("%d CPUs", n)
	}
}
