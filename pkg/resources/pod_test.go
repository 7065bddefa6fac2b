package resources

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

func restrictedPod(user int64) *corev1ac.PodSecurityContextApplyConfiguration {
	pod, _ := SecurityContexts(nil, SecurityDefaults{Profile: common.SecurityRestricted, User: user})
	return pod
}

// The hash of a pod template depends on its exact JSON: {} and an absent field
// differ, and a difference replaces every pod.
func TestPodSpec_Parts(t *testing.T) {
	volume, mount := Scratch("tmp", "/tmp")
	for name, tc := range map[string]struct {
		part any
		want string
	}{
		"pod":       {restrictedPod(101), `{"runAsUser":101,"runAsGroup":101,"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`},
		"container": {RestrictedContainer(), `{"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false}`},
		"readiness": {TCPReadiness(80), `{"tcpSocket":{"port":80},"timeoutSeconds":1,"periodSeconds":2,"successThreshold":1,"failureThreshold":3}`},
		"volume":    {volume, `{"name":"tmp","emptyDir":{}}`},
		"mount":     {mount, `{"name":"tmp","mountPath":"/tmp"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(tc.part)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
