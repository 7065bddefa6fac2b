package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// drainsOfEach is how many times the pods of each combination are drained.
	drainsOfEach = 4
	// evictFor is how long the eviction of one pod is tried.
	evictFor = time.Minute
)

// drainResults are the results of evicting all pods of combinations of objects.
type drainResults struct {
	Combinations, Drains, Evictions int
	// Retried is how many evictions succeeded only after others, and Blocked how many
	// did not succeed within evictFor.
	Retried, Blocked int
	// RefusedLabels is how many objects were rejected because their pods would have
	// had the labels by which another object selects its own.
	RefusedLabels int
}

// combination is two objects of one namespace.
type combination struct {
	one, other resource
	replicas   int64
	sameName   bool
}

func combinations() (pairs []combination) {
	web, cache, application, immortal := kinds()
	all := []resource{web, cache, application, immortal}
	for _, one := range all {
		for _, other := range all {
			for _, replicas := range []int64{1, 2, 3} {
				for _, sameName := range []bool{false, true} {
					if !sameName || one.kind != other.kind {
						pairs = append(pairs, combination{one, other, replicas, sameName})
					}
				}
			}
		}
	}
	return pairs
}

// measureDrains drains every combination of two kinds, the second of which tries to
// have the labels by which the first one selects its pods.
func (l *lab) measureDrains(ctx context.Context) error {
	r := &drainResults{}
	l.results.Neighbours.Drains = r
	all := combinations()
	logf("draining %d combinations of objects", len(all))
	var mu sync.Mutex
	return inParallel(ctx, len(all), func(i int) error {
		one, err := l.drainCombination(ctx, fmt.Sprintf("drain-%d", i), all[i])
		if err != nil {
			return fmt.Errorf("draining a %s and a %s: %w", all[i].one.kind, all[i].other.kind, err)
		}
		mu.Lock()
		defer mu.Unlock()
		r.Combinations++
		r.Drains += one.Drains
		r.Evictions += one.Evictions
		r.Retried += one.Retried
		r.Blocked += one.Blocked
		r.RefusedLabels += one.RefusedLabels
		return nil
	})
}

func (l *lab) drainCombination(ctx context.Context, namespace string, c combination) (r drainResults, err error) {
	if err := l.namespace(ctx, namespace); err != nil {
		return r, err
	}
	names := [2]string{"one", "other"}
	if c.sameName {
		names[1] = names[0]
	}
	if err := l.createSpec(ctx, c.one, namespace, names[0], c.one.spec(c.replicas)); err != nil {
		return r, err
	}
	labels, err := l.labelsOfPods(ctx, namespace)
	if err != nil {
		return r, err
	}
	spec := c.other.spec(c.replicas)
	spec["pod"] = map[string]any{"labels": labels}
	err = l.createSpec(ctx, c.other, namespace, names[1], spec)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		r.RefusedLabels++
		err = l.createSpec(ctx, c.other, namespace, names[1], c.other.spec(c.replicas))
	}
	if err != nil {
		return r, err
	}
	ready := []id{{c.one.gvr, namespace, names[0]}}
	if !c.sameName { // or else both may want the same Deployment, which the first one has
		ready = append(ready, id{c.other.gvr, namespace, names[1]})
	}
	for range drainsOfEach {
		if err := l.awaitAll(ctx, namespace, ready); err != nil {
			return r, err
		}
		if err := l.drain(ctx, namespace, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// labelsOfPods waits for a pod and returns its labels, without those that Kubernetes and
// the operator set for themselves.
func (l *lab) labelsOfPods(ctx context.Context, namespace string) (map[string]any, error) {
	labels := map[string]any{}
	err := wait(ctx, patience, "a pod", func() bool {
		pods, err := l.typed.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil || len(pods.Items) == 0 {
			return false
		}
		for k, v := range pods.Items[0].Labels {
			if k != "pod-template-hash" && k != "app.kubernetes.io/managed-by" {
				labels[k] = v
			}
		}
		return true
	})
	return labels, err
}

// awaitAll waits until the objects are Ready.
func (l *lab) awaitAll(ctx context.Context, namespace string, keys []id) error {
	return wait(ctx, patience, "all objects in "+namespace+" to become Ready", func() bool {
		_, ok := l.seen.readyTimes(keys)
		return ok
	})
}

// drain evicts the pods that exist when it begins.
func (l *lab) drain(ctx context.Context, namespace string, r *drainResults) error {
	pods, err := l.typed.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	r.Drains++
	for _, p := range pods.Items {
		r.Evictions++
		eviction := &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: p.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
		}
		tries := 0
		for deadline := time.Now().Add(evictFor); ; {
			tries++
			err := l.typed.PolicyV1().Evictions(namespace).Evict(ctx, eviction)
			if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it no longer exists
				break
			}
			if time.Now().After(deadline) {
				logf("a pod of %s cannot be evicted: %v", namespace, err)
				r.Blocked++
				break
			}
			if err := sleep(ctx, 200*time.Millisecond); err != nil {
				return err
			}
		}
		if tries > 1 {
			r.Retried++
		}
	}
	return nil
}
