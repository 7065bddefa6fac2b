package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	namespaceScale = "scale"
	// parallel is the number of requests that the client sends at the same time.
	parallel = 32
	// restFor is how long the operator is observed while nothing changes.
	restFor = 20 * time.Second
)

// restart is what a restart took, until the operator was idle.
type restart struct {
	Objects int
	// Start is the time from the start of the process until the workers start, and CPU
	// the processor time until the operator is idle, when it has Memory MiB.
	Start, CPU time.Duration
	Memory     float64
}

// batch is what the creation of some objects took.
type batch struct {
	Created int
	// Took is the time until all were Ready, and CPU the processor time of the operator
	// until it was idle.
	Took, CPU time.Duration
	// Peak is the maximum of the resident memory of the operator, in MiB.
	Peak float64
}

// measureLoad creates objects in several rounds, in each of which every program creates
// as many. Then it restarts each program that often with all objects. The order of the
// programs is reversed in every second round, so that neither a machine that becomes
// slower nor the number of objects favors one.
func (l *lab) measureLoad(ctx context.Context) error {
	if err := l.namespace(ctx, namespaceScale); err != nil {
		return err
	}
	population, size := 0, l.objects/(l.rounds*len(l.programs))
	each := func(do func(m *measured) error) error {
		for round := range l.rounds {
			order := []int{}
			for i := range l.programs {
				order = append(order, i)
			}
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, i := range order {
				if err := l.measureRestart(ctx, i, population); err != nil {
					return err
				}
				if err := do(&l.results[i]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := each(func(m *measured) error {
		b, err := l.create(ctx, population, size)
		m.Batches = append(m.Batches, b)
		population += size
		return err
	}); err != nil {
		return err
	}
	return each(func(m *measured) error {
		before := l.current.cpu()
		err := sleep(ctx, restFor)
		m.RestCPU = append(m.RestCPU, (l.current.cpu()-before).Seconds()/restFor.Seconds())
		return err
	})
}

func (l *lab) measureRestart(ctx context.Context, program, population int) error {
	if population > 0 && len(l.programs) > 1 { // not to count what it changes of the other one's children
		if err := l.restart(ctx, l.programs[program]); err != nil {
			return err
		}
		if err := l.current.quiet(ctx, limit(population)); err != nil {
			return err
		}
	}
	if err := l.restart(ctx, l.programs[program]); err != nil {
		return err
	}
	op := l.current
	if err := op.quiet(ctx, limit(population)); err != nil {
		return err
	}
	if program == len(l.programs)-1 { // an earlier operator may refuse what a later one has made
		for i := range population {
			if err := l.ready(ctx, patience, webServer(namespaceScale, fmt.Sprintf("o%d", i))); err != nil {
				return err
			}
		}
	}
	r := restart{Objects: population, Start: op.leadingAt.Sub(op.began), CPU: op.cpu()}
	r.Memory, _ = op.memory()
	l.results[program].Restarts = append(l.results[program].Restarts, r)
	logf("%s with %d WebServers: workers start after %s, %s of CPU, %.0f MiB", l.programs[program], population, seconds(r.Start), seconds(r.CPU), r.Memory)
	return nil
}

// create creates WebServers and waits until all are Ready and the operator is idle.
func (l *lab) create(ctx context.Context, first, size int) (batch, error) {
	b := batch{Created: size}
	before, began := l.current.cpu(), time.Now()
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range size {
		group.Go(func() error {
			return l.client.Create(creating, webServer(namespaceScale, fmt.Sprintf("o%d", first+i)))
		})
	}
	if err := group.Wait(); err != nil {
		return b, fmt.Errorf("creating a WebServer: %w", err)
	}
	for i := range size {
		if err := l.ready(ctx, limit(size), webServer(namespaceScale, fmt.Sprintf("o%d", first+i))); err != nil {
			return b, err
		}
	}
	b.Took = time.Since(began)
	if err := l.current.quiet(ctx, limit(size)); err != nil {
		return b, err
	}
	b.CPU = l.current.cpu() - before
	_, b.Peak = l.current.memory()
	logf("%d more WebServers: all Ready after %s, %s of CPU for each", size, seconds(b.Took), millis(b.each()))
	return b, nil
}

// each returns the processor time for each object.
func (b batch) each() time.Duration { return b.CPU / time.Duration(max(b.Created, 1)) }

// limit is the time limit for work on n objects.
func limit(n int) time.Duration { return patience + time.Duration(n)*time.Second }
