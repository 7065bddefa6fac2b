// Package progress reports the steps of a command to a waiting person.
package progress

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// Reporter prints which step runs, what it does, and for how long.
type Reporter struct {
	Out   io.Writer
	Total int
	step  int
}

// heartbeat is how often a long step says that it is still alive.
const heartbeat = 20 * time.Second

// quick steps are reported once, when they are done.
const quick = 2 * time.Second

// Run performs one step. The detail it returns (like "cached") ends the line.
func (p *Reporter) Run(what, takes string, f func() (detail string, err error)) error {
	p.step++
	label := fmt.Sprintf("[%*d/%d] %s", len(strconv.Itoa(p.Total)), p.step, p.Total, what)
	start := time.Now()
	stop := p.tick(label, takes, start)
	detail, err := f()
	stop()
	if err != nil {
		fmt.Fprintf(p.Out, "%s: failed after %s\n", label, Elapsed(start))
		return fmt.Errorf("%s: %w", what, err)
	}
	if detail != "" {
		detail += ", "
	}
	fmt.Fprintf(p.Out, "%s: %s%s\n", label, detail, Elapsed(start))
	return nil
}

// tick prints while a step is slow, until the returned function is called.
func (p *Reporter) tick(label, takes string, start time.Time) (stop func()) {
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
				fmt.Fprintf(p.Out, "%s ... (about %s the first time)\n", label, takes)
			case first:
				fmt.Fprintf(p.Out, "%s ...\n", label)
			default:
				fmt.Fprintf(p.Out, "%s ... still at it, %s\n", label, Elapsed(start))
			}
			timer.Reset(heartbeat)
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// Elapsed returns the time since a moment, rounded for people.
func Elapsed(since time.Time) string {
	d := time.Since(since)
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
