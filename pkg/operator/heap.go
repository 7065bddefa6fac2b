package operator

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// smallHeap is the size in bytes that the heap may have before it is collected.
// GOGC saves memory where there are many objects. Of a heap of 10 MiB, it would
// collect each 5 MiB, which takes a quarter of the CPU while objects are created.
const smallHeap = 32 << 20

// LetSmallHeapsGrow makes the garbage collector wait until the heap has
// smallHeap bytes. From then on, GOGC applies. It is called once.
func LetSmallHeapsGrow() {
	gogc := debug.SetGCPercent(-1)
	set := func(live uint64) { debug.SetGCPercent(collectAt(live, gogc)) }
	set(0)
	afterEachCollection(func() {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		set(sample[0].Value.Uint64())
	})
}

// collectAt returns by how many percent the heap may grow until the next
// collection. live is its size after the last one, and gogc the minimum. If that
// is negative, there are no collections.
func collectAt(live uint64, gogc int) int {
	live = max(live, smallHeap/16)
	if gogc < 0 || live >= smallHeap {
		return gogc
	}
	return max(gogc, int((smallHeap-live)*100/live)) //nolint:gosec // at most 1500
}

// afterEachCollection calls do after each garbage collection.
func afterEachCollection(do func()) {
	var again func(*[16]byte)
	again = func(o *[16]byte) {
		do()
		runtime.SetFinalizer(o, again)
	}
	runtime.SetFinalizer(new([16]byte), again)
}
