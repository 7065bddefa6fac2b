package memcached

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/policy"
)

// judge validates a Memcached against the platform configuration.
func judge(m *cachev1alpha1.Memcached, platform config.Platform) policy.Verdict {
	spec := field.NewPath("spec")
	r := policy.Request{
		Namespace: m.Namespace, Images: []config.Image{{Field: spec.Child("image"), Name: m.Spec.Image, PullField: spec.Child("imagePullPolicy"), Pull: m.Spec.ImagePullPolicy}}, DeletionPolicy: m.Spec.DeletionPolicy, Pod: m.Spec.Pod,
		Replicas: policy.Number{Field: spec.Child("size"), Value: m.Spec.Size}, Budget: m.Spec.PodDisruptionBudget,
		Selector: m.PodLabels(), Deployed: true, Rollout: m.Spec.Rollout,
	}
	if m.Spec.Service != nil {
		r.Service = &common.ServiceOptions{Annotations: m.Spec.Service.Annotations}
	}
	return r.Judge(platform)
}
