package podstate

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MountsWithin is how long a pod may take to mount its volumes before a condition lists
// what it mounts.
const MountsWithin = 30 * time.Second

// Mounts returns the Secrets and ConfigMaps without which a pod with these volumes does
// not start, except the ConfigMaps for which generated returns true.
func Mounts(volumes []corev1.Volume, generated func(configMap string) bool) []string {
	var all []string
	add := func(kind, name, volume string, optional *bool) {
		if name != "" && (optional == nil || !*optional) {
			all = append(all, fmt.Sprintf("%s %q (volume %q)", kind, name, volume))
		}
	}
	configMap := func(name, volume string, optional *bool) {
		if !generated(name) {
			add("ConfigMap", name, volume, optional)
		}
	}
	for _, v := range volumes {
		if v.Secret != nil {
			add("Secret", v.Secret.SecretName, v.Name, v.Secret.Optional)
		}
		if v.ConfigMap != nil {
			configMap(v.ConfigMap.Name, v.Name, v.ConfigMap.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				add("Secret", s.Secret.Name, v.Name, s.Secret.Optional)
			}
			if s.ConfigMap != nil {
				configMap(s.ConfigMap.Name, v.Name, s.ConfigMap.Optional)
			}
		}
	}
	return all
}

// ReadyToStart reports whether the kubelet has mounted a pod's volumes, which
// it does before it creates the sandbox of the pod.
func ReadyToStart(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
	})
}

// StartedAt returns when a pod was scheduled or, if that was later, when its
// volumes were mounted. The time is by the clocks of other machines.
func StartedAt(p *corev1.Pod) time.Time {
	since := p.CreationTimestamp.Time
	for _, c := range p.Status.Conditions {
		if (c.Type == corev1.PodScheduled || c.Type == corev1.PodReadyToStartContainers) && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return since
}

// MountTimeLeft returns how much of MountsWithin a pod has left by the operator's clock,
// and at most all of it. It is not positive if the pod takes too long.
func MountTimeLeft(p *corev1.Pod, now time.Time) time.Duration {
	return min(StartedAt(p).Add(MountsWithin).Sub(now), MountsWithin)
}
