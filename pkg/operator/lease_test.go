package operator

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// standby returns the lock of a replica while another one holds the Lease.
func standby(t *testing.T, seconds int32) (*watchedLock, *coordinationv1.Lease, *fake.Clientset) {
	t.Helper()
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: naming.ManagedBy},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("leader"), LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now, LeaseTransitions: new(int32(1))},
	}
	c := fake.NewClientset(lease)
	return &watchedLock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: naming.ManagedBy}, Client: c.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "standby"},
		},
		leases: c.CoordinationV1().Leases("ns"),
	}, lease, c
}

func verbs(c *fake.Clientset) map[string]int {
	n := map[string]int{}
	for _, a := range c.Actions() {
		n[a.GetVerb()]++
	}
	return n
}

// A standby acquires the Lease because of the event of its release, and not at
// the next poll: it reads it once before and once after.
func TestWatchedLock_ReturnsWhenTheLeaseIsReleased(t *testing.T) {
	l, lease, c := standby(t, 3600)
	got := make(chan string, 1)
	go func() {
		r, _, err := l.Get(t.Context())
		if err != nil {
			got <- err.Error()
			return
		}
		got <- r.HolderIdentity
	}()
	for verbs(c)["watch"] == 0 {
		time.Sleep(time.Millisecond)
	}
	for range 3 { // the leader renews it
		lease.Spec.RenewTime = new(metav1.NewMicroTime(lease.Spec.RenewTime.Add(2 * time.Second)))
		if _, err := c.CoordinationV1().Leases("ns").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case h := <-got:
		t.Fatalf("Get returned holder %q although the Lease is held", h)
	default:
	}
	lease.Spec.HolderIdentity = new("")
	if _, err := c.CoordinationV1().Leases("ns").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if h := <-got; h != "" {
		t.Errorf("got holder %q, want none", h)
	}
	if n := verbs(c); n["get"] != 2 || n["watch"] != 1 {
		t.Errorf("requests %v, want 2 reads and 1 watch", n)
	}
}

func TestWatchedLock_ReturnsWhenTheLeaseExpires(t *testing.T) {
	l, _, _ := standby(t, 1)
	r, _, err := l.Get(t.Context())
	if err != nil || r.HolderIdentity != "" || r.LeaderTransitions != 1 {
		t.Errorf("got %+v, %v, want a record without a holder", r, err)
	}
}

// A replica that was the leader must learn at once that it is not any more.
func TestWatchedLock_DoesNotWaitOnceItHasLed(t *testing.T) {
	l, _, _ := standby(t, 3600)
	l.led.Store(true)
	r, _, err := l.Get(t.Context())
	if err != nil || r.HolderIdentity != "leader" {
		t.Errorf("got %+v, %v, want the other leader", r, err)
	}
}
