package operator

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// newLock returns the lock for leader election.
func newLock(cfg *rest.Config, namespace string, recorder resourcelock.EventRecorder) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the name of this host: %w", err)
	}
	short := rest.AddUserAgent(rest.CopyConfig(cfg), "leader-election")
	leases, err := coordinationv1client.NewForConfig(short)
	if err != nil {
		return nil, fmt.Errorf("making the client of the Lease: %w", err)
	}
	short.Timeout = renewDeadline / 2 // a request without an answer must not cost the leadership
	bounded, err := coordinationv1client.NewForConfig(short)
	if err != nil {
		return nil, fmt.Errorf("making the client of the Lease: %w", err)
	}
	return &watchedLock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: naming.ManagedBy},
			Client:     bounded,
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID()), EventRecorder: recorder},
		},
		leases: leases.Leases(namespace),
	}, nil
}

// renewDeadline is the default of controller-runtime.
const renewDeadline = 10 * time.Second

// lateRecorder records events once the manager, which has the recorder, exists.
type lateRecorder struct{ resourcelock.EventRecorder }

// Eventf records an event.
func (r *lateRecorder) Eventf(o runtime.Object, kind, reason, message string, args ...any) {
	if r.EventRecorder != nil {
		r.EventRecorder.Eventf(o, kind, reason, message, args...)
	}
}

// watchedLock is a Lease for leader election that a standby watches: it becomes
// the leader as soon as the Lease is released. The elector of client-go only
// polls, every 2 to 4.4 seconds; a shorter period would also make the leader
// renew the Lease more often.
//
// The elector calls Get before each attempt to become the leader. While another
// replica holds the Lease, Get returns only when the Lease is released, or when
// it has not been renewed for its duration, by this process's clock. The write
// that follows is fenced by the resource version that Get read, as without this
// lock.
type watchedLock struct {
	resourcelock.Interface
	leases coordinationv1client.LeaseInterface

	led atomic.Bool // the Lease was acquired: Get does not wait any more
}

// Get returns the record once this replica may acquire the Lease. If the watch
// fails, it returns the record as it is, and the elector polls.
func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	var silent *metav1.MicroTime // the renewal after which there was none for the duration
	for {
		record, raw, err := l.Interface.Get(ctx)
		if err != nil || l.led.Load() || record.HolderIdentity == "" || record.HolderIdentity == l.Identity() {
			return record, raw, err //nolint:wrapcheck // the elector interprets it
		}
		if silent != nil && silent.Time.Equal(record.RenewTime.Time) {
			// The elector would wait for another duration. If the Lease is renewed
			// now, the write fails with a conflict.
			record.HolderIdentity = ""
			return record, raw, nil
		}
		silent, err = l.wait(ctx, metav1.MicroTime{Time: record.RenewTime.Time}, time.Duration(record.LeaseDurationSeconds)*time.Second)
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("waiting for the Lease: %w", ctx.Err())
		}
		if err != nil {
			return record, raw, nil //nolint:nilerr // the elector polls instead
		}
	}
}

// wait returns when the Lease was released or deleted, or with the time of its
// last renewal when it was not renewed for a duration. read is the renewal that
// was read before.
func (l *watchedLock) wait(ctx context.Context, read metav1.MicroTime, duration time.Duration) (silent *metav1.MicroTime, err error) {
	w, err := l.leases.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", naming.ManagedBy).String()})
	if err != nil {
		return nil, fmt.Errorf("watching the Lease: %w", err)
	}
	defer w.Stop()
	timer := time.NewTimer(duration)
	defer timer.Stop()
	renewed := &read
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-timer.C:
			return renewed, nil
		case e, open := <-w.ResultChan():
			lease, ok := e.Object.(*coordinationv1.Lease)
			if !open || !ok || e.Type == watch.Deleted || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
				return nil, nil // also if the server has ended the watch
			}
			if lease.Spec.RenewTime != nil && !renewed.Equal(lease.Spec.RenewTime) {
				renewed = lease.Spec.RenewTime
				timer.Reset(duration)
			}
		}
	}
}

// Create acquires the Lease.
func (l *watchedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.wrote(l.Interface.Create(ctx, r))
}

// Update acquires, renews or releases the Lease.
func (l *watchedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.wrote(l.Interface.Update(ctx, r))
}

func (l *watchedLock) wrote(err error) error {
	if err == nil {
		l.led.Store(true)
	}
	return err // the elector interprets it
}
