package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "paas.cmft.com", Version: "v1"}

// AddToScheme makes this package's kinds known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &DemoApplication{}, &DemoApplicationList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
