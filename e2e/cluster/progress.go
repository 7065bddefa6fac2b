package main

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// progress tells a waiting person which step runs, what it is doing, and how
// long it has been at it.
type progress struct {
	out   io.Writer
	total int
	step  int
}

// heartbeat is how often a long step says that it is still alive.
const heartbeat = 20 * time.Second

// quick steps are reported once, when they are done.
const quick = 2 * time.Second

// run performs one step. The detail it returns (like "cached") ends the line.
func (p *progress) run(what, takes string, f func() (detail string, err error)) error {
	p.step++
	label := fmt.Sprintf("[%*d/%d] %s", len(strconv.Itoa(p.total)), p.step, p.total, what)
	start := time.Now()
	stop := p.tick(label, takes, start)
	detail, err := f()
	stop()
	if err != nil {
		fmt.Fprintf(p.out, "%s: failed after %s\n", label, elapsed(start))
		return fmt.Errorf("%s: %w", what, err)
	}
	if detail != "" {
		detail += ", "
	}
	fmt.Fprintf(p.out, "%s: %s%s\n", label, detail, elapsed(start))
	return nil
}

// tick prints while a step is slow, until the returned function is called.
func (p *progress) tick(label, takes string, start time.Time) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		timer := time.NewTimer(quick)
		defer timer.Stop()
		for first := true; ; first = false {
			select {
			case <-done:
				return
			case <-timer.C:
			}
			switch {
			case first && takes != "":
				fmt.Fprintf(p.out, "%s ... (about %s the first time)\n", label, takes)
			case first:
				fmt.Fprintf(p.out, "%s ...\n", label)
			default:
				fmt.Fprintf(p.out, "%s ... still at it, %s\n", label, elapsed(start))
			}
			timer.Reset(heartbeat)
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

func elapsed(since time.Time) string {
	d := time.Since(since)
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
