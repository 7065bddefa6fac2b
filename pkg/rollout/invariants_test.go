package rollout

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// chain is a world with random events, and what the test knows about it.
type chain struct {
	*world
	rand   *rand.Rand
	events []string
	// failed is the revision that was recorded as failed, until the inputs
	// change.
	failed string
	// healthy reports that a revision was healthy, and that this is still
	// recorded.
	healthy bool
	// idle is the template that was rolled out at zero replicas.
	idle string
}

// In every sequence of events, a failed revision is not rolled out again before
// the inputs change, the healthy revision serves instead, Halt does not change
// which revision serves, and no two revisions have the same number.
func TestDecide_KeepsItsInvariants(t *testing.T) {
	for seed := range uint64(60) {
		c := &chain{world: newWorld(t), rand: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // reproducible by its seed
		c.rollout.RevisionHistoryLimit = new(int32(3))
		c.settle()
		for range 25 {
			c.happens()
			c.settle()
			if t.Failed() {
				t.Fatalf("seed %d: %s", seed, strings.Join(c.events, ", "))
			}
		}
	}
}

// happens causes one random event.
func (c *chain) happens() {
	event := ""
	switch c.rand.IntN(9) {
	case 0, 1:
		before := c.image
		for c.image == before {
			c.image = []string{"web:1", "web:2", "web:3", "web:bad1", "web:bad2"}[c.rand.IntN(5)]
		}
		c.failed, event = "", "edit to "+c.image
	case 2:
		c.now = c.now.Add(1e9)
		c.rollout.RestartedAt = new(metav1.NewTime(c.now))
		c.failed, event = "", "restart"
	case 3:
		c.rollout.OnFailure = []common.FailurePolicy{common.OnFailureHalt, common.OnFailureRollback}[c.rand.IntN(2)]
		event = string(c.rollout.OnFailure)
	case 4:
		c.rollout.PinnedRevision, event = nil, "unpin"
		if n := len(c.seen.Revisions); n > 0 && c.rand.IntN(2) == 0 {
			c.rollout.PinnedRevision = new(c.seen.Revisions[c.rand.IntN(n)].Revision)
			event = fmt.Sprintf("pin to %d", *c.rollout.PinnedRevision)
		}
	case 5:
		c.replicas = 3 - c.replicas
		event = fmt.Sprintf("scale to %d", c.replicas)
	case 6:
		event = "delete the history"
		m := remembered(c.status)
		c.healthy = c.healthy && m.current == m.healthy
		c.seen.Revisions = nil
	case 7:
		event = "erase the status"
		notes := c.seen.Deployment.Annotations
		if notes[naming.AnnotationFailedRevision] == "" && c.indexOf(notes[naming.AnnotationHealthyRevision]) < 0 && !proven(c.seen.Deployment) {
			c.healthy, c.failed = false, "" // the Deployment does not show it either
		}
		c.status = common.RolloutStatus{}
	case 8:
		event = "reconcile"
	}
	c.events = append(c.events, event)
}

// settle reconciles while the cluster rolls out the Deployment.
func (c *chain) settle() {
	for range 6 {
		c.reconcile()
		c.cluster()
	}
	if d, err := Decide(c.question(), c.seen); err == nil && c.healthy && c.failed == d.Desired.name && !d.pinned &&
		c.rollout.OnFailure != common.OnFailureHalt && d.Serving.name == c.failed {
		c.t.Errorf("what failed serves, and something was healthy: %+v", c.status.Revisions)
	}
}

func (c *chain) reconcile() {
	before := ""
	if c.seen.Deployment != nil {
		before = c.seen.Deployment.Spec.Template.Annotations[naming.AnnotationTemplate]
	}
	d, err := Decide(c.question(), c.seen)
	if d.Template == nil {
		c.t.Errorf("there is no template: %v", err)
		return
	}
	c.follow(d)
	after := c.seen.Deployment.Spec.Template.Annotations[naming.AnnotationTemplate]
	if after != before && d.Serving.name == c.failed && !d.pinned {
		c.t.Errorf("revision %d failed, and is rolled out again", d.Serving.Number)
	}
	if after != before && c.failed == d.Desired.name && !d.pinned && c.rollout.OnFailure == common.OnFailureHalt {
		c.t.Errorf("Halt changed what serves to revision %d", d.Serving.Number)
	}
	numbers := map[int64]string{}
	for _, r := range c.seen.Revisions {
		if other := numbers[r.Revision]; other != "" {
			c.t.Errorf("%s and %s have number %d", other, r.Name, r.Revision)
		}
		numbers[r.Revision] = r.Name
	}
	m := remembered(c.status)
	if m.failed.known() {
		c.failed = m.failed.name
	} else if c.failed == m.healthy.name {
		c.failed = ""
	}
	c.healthy = c.healthy || m.healthy.known()
	if strings.HasPrefix(c.image, "web:bad") && m.healthy.known() && m.healthy.name == d.Desired.name {
		c.t.Errorf("%s is healthy, of which no pod was available", c.image)
	}
}

// cluster rolls out the Deployment's template. Containers with an image named
// bad crash.
func (c *chain) cluster() {
	d := c.seen.Deployment
	hash := d.Spec.Template.Annotations[naming.AnnotationTemplate]
	switch {
	case *d.Spec.Replicas == 0:
		c.rolls()
		c.idle = hash
	case !strings.HasPrefix(c.deployed(), "web:bad"):
		c.rolls()
		c.idle = hash
	default:
		c.rolls(crashing)
		if hash == c.idle { // the Deployment controller applies no deadline to it
			d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 3, 3, 0, 0
			d.Status.Conditions = []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			}
		} else {
			c.idle = ""
		}
	}
}
