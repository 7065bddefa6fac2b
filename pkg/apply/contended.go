package apply

import (
	"maps"
	"sync"
	"time"
)

// forgetRefusal is how long the refusal of a contended resource is remembered.
// Then it is requested again, because it may have been released.
const forgetRefusal = time.Minute

// contended remembers which contended resources were refused. There are few of
// them: they are named by the configuration, not by objects.
type contended struct {
	mu      sync.Mutex
	refused map[string]refusal // by Intent.Contended
}

type refusal struct {
	err error
	at  time.Time
}

// recall returns the refusal of a resource, or nil if there was none recently.
func (c *contended) recall(resource string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.refused, func(_ string, r refusal) bool { return now.Sub(r.at) >= forgetRefusal })
	return c.refused[resource].err
}

// remember records the refusal of a resource, unless its name is empty.
func (c *contended) remember(resource string, err error, now time.Time) {
	if resource == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[resource] = refusal{err, now}
}
