package immortalcontainer

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/policy"
)

// judge validates an ImmortalContainer against the platform configuration.
func judge(i *immortalv1alpha1.ImmortalContainer, platform config.Platform) policy.Verdict {
	spec := field.NewPath("spec")
	return policy.Request{
		Namespace: i.Namespace, Images: []config.Image{{Field: spec.Child("image"), Name: i.Spec.Image, PullField: spec.Child("imagePullPolicy"), Pull: i.Spec.ImagePullPolicy}}, DeletionPolicy: i.Spec.DeletionPolicy, Pod: i.Spec.Pod, Profile: policy.Profile(i.Spec.Security),
		Container: &i.Spec.Container, Selector: i.PodLabels(),
	}.Judge(platform)
}
