package operator

import (
	"runtime"
	"testing"
	"time"
)

func TestCollectAt(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		live       uint64
		gogc, want int
	}{
		{0, 50, 1500},
		{2 * mib, 50, 1500},
		{8 * mib, 50, 300},
		{16 * mib, 50, 100},
		{24 * mib, 50, 50},
		{32 * mib, 50, 50},
		{200 * mib, 50, 50},
		{16 * mib, 200, 200},
		{8 * mib, -1, -1},
	} {
		if got := collectAt(tc.live, tc.gogc); got != tc.want {
			t.Errorf("%d MiB, GOGC=%d: got %d, want %d", tc.live/mib, tc.gogc, got, tc.want)
		}
	}
}

func TestAfterEachCollection(t *testing.T) {
	called := make(chan bool, 1)
	afterEachCollection(func() {
		select {
		case called <- true:
		default:
		}
	})
	for range 3 {
		runtime.GC()
		select {
		case <-called:
		case <-time.After(10 * time.Second):
			t.Fatal("not called after a collection")
		}
	}
}
