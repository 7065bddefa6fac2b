package model

import (
	"context"
	"sync/atomic"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// handlerDelay is how long a slow handler needs for each event: long enough for another
// two operations and the garbage collector.
const handlerDelay = 200 * time.Millisecond

// slowHandlers makes the handlers of the controllers slow while slow is true, as on a busy
// machine: the caches hold a change before its event is handled, and the changes after it.
func slowHandlers(s testkit.Subject, slow *atomic.Bool) testkit.Subject {
	setup := s.Setup
	s.Setup = func(mgr manager.Manager, a *apply.Applier) error { return setup(slowManager{mgr, slow}, a) }
	return s
}

type slowManager struct {
	manager.Manager
	slow *atomic.Bool
}

func (m slowManager) GetCache() cache.Cache { return slowCache{m.Manager.GetCache(), m.slow} }

type slowCache struct {
	cache.Cache
	slow *atomic.Bool
}

func (c slowCache) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	i, err := c.Cache.GetInformer(ctx, o, opts...)
	return slowInformer{i, c.slow}, err
}

type slowInformer struct {
	cache.Informer
	slow *atomic.Bool
}

func (i slowInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	wait := func() {
		if i.slow.Load() {
			time.Sleep(handlerDelay)
		}
	}
	return i.Informer.AddEventHandlerWithOptions(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) {
			if !initial {
				wait()
			}
			h.OnAdd(o, initial)
		},
		UpdateFunc: func(before, after any) { wait(); h.OnUpdate(before, after) },
		DeleteFunc: func(o any) { wait(); h.OnDelete(o) },
	}, o)
}
