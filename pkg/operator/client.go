package operator

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// catchUp is how long a read waits for the operator's own writes. A reconcile that
	// has waited must still be able to write, for which it has five seconds (pkg/apply).
	catchUp = 2 * time.Second
	// noCatchUp is how long reads of a type do not wait after one has waited in vain.
	noCatchUp = time.Minute
)

// boundedClient is a client whose reads wait for its own writes, but not longer than
// catchUp. The client of controller-runtime waits for an event of the version that was
// written, or of a later version of any object of the type. There is none if the
// object was written and deleted while its watch was interrupted and the objects were
// listed again, so that its reads, and all lists of the type, would wait until
// another object of the type changes.
type boundedClient struct {
	client.Client

	mu      sync.RWMutex
	impeded map[reflect.Type]time.Time // until when reads of a type do not wait
}

func newBoundedClient(cfg *rest.Config, o client.Options) (client.Client, error) {
	c, err := client.New(cfg, o)
	return &boundedClient{Client: c, impeded: map[reflect.Type]time.Time{}}, err
}

// Get reads an object.
func (c *boundedClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.read(ctx, o, func(ctx context.Context, wait bool) error {
		if !wait {
			opts = append(slices.Clip(opts), client.DisableReadYourWritesConsistency)
		}
		return c.Client.Get(ctx, key, o, opts...)
	})
}

// List reads objects.
func (c *boundedClient) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return c.read(ctx, l, func(ctx context.Context, wait bool) error {
		if !wait {
			opts = append(slices.Clip(opts), client.DisableReadYourWritesConsistency)
		}
		return c.Client.List(ctx, l, opts...)
	})
}

// read calls a function that reads, which is told whether to wait for own writes, and
// calls it again without that if it has waited too long.
func (c *boundedClient) read(ctx context.Context, into any, read func(ctx context.Context, wait bool) error) error {
	of := reflect.TypeOf(into)
	c.mu.RLock()
	until, impeded := c.impeded[of]
	c.mu.RUnlock()
	if impeded && time.Now().Before(until) {
		return read(ctx, false)
	}
	bounded, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	err := read(bounded, true)
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	log.FromContext(ctx).Info("The cache does not show the operator's own writes; reading it as it is", "type", of.String(), "error", err.Error())
	c.mu.Lock()
	c.impeded[of] = time.Now().Add(noCatchUp)
	c.mu.Unlock()
	return read(ctx, false)
}
