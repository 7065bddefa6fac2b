package podstate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestDiagnose_ReadsTheTextsOfRuntimes(t *testing.T) {
	const pull = `rpc error: code = Unknown desc = failed to pull and unpack image "r/web:2": `
	for name, tc := range map[string]struct {
		reason, message                string
		missing, unreachable, referred bool
	}{
		"containerd, no image":         {reason: "ErrImagePull", message: `rpc error: code = NotFound desc = failed to pull and unpack image "r/web:2": failed to resolve reference "r/web:2": r/web:2: not found`, missing: true},
		"containerd, a lost layer":     {reason: "ErrImagePull", message: `rpc error: code = NotFound desc = failed to pull and unpack image "r/web:2": failed to prepare extraction snapshot "x": parent snapshot sha256:0 does not exist: not found`},
		"containerd, denied":           {reason: "ErrImagePull", message: pull + `failed to resolve reference "r/web:2": pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`},
		"containerd, no address":       {reason: "ErrImagePull", message: pull + `failed to resolve reference "r/web:2": failed to do request: Head "https://r/v2/web/manifests/2": dial tcp: lookup r: no such host`, unreachable: true},
		"containerd, too many":         {reason: "ImagePullBackOff", message: `Back-off pulling image "r/web:2": ErrImagePull: ` + pull + `failed to resolve reference "r/web:2": unexpected status from HEAD request to https://r/v2/web/manifests/2: 429 Too Many Requests`, unreachable: true},
		"containerd, not served":       {reason: "ErrImagePull", message: pull + `failed to resolve reference "r/web:2": unexpected status from HEAD request to https://r/v2/web/manifests/2: 503 Service Unavailable`, unreachable: true},
		"CRI-O, no image":              {reason: "ErrImagePull", message: `unable to pull image or OCI artifact: pull image err: initializing source docker://r/web:2: reading manifest 2 in r/web: manifest unknown; artifact err: get manifest: build image source: reading manifest 2 in r/web: manifest unknown`, missing: true},
		"CRI-O, no registry":           {reason: "ErrImagePull", message: `initializing source docker://r/web:2: pinging container registry r: Get "https://r/v2/": dial tcp 10.0.0.1:443: i/o timeout`, unreachable: true},
		"kubelet, invalid name":        {reason: "InvalidImageName", message: `Failed to apply default image tag "web:": couldn't parse image name "web:": invalid reference format`, missing: true},
		"kubelet, too many":            {reason: "ErrImagePull", message: "pull QPS exceeded", unreachable: true},
		"runc, no command":             {reason: "RunContainerError", message: `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "/app": stat /app: no such file or directory: unknown`, missing: true},
		"crun, no command":             {reason: "CreateContainerError", message: "container create failed: executable file `/app` not found", missing: true},
		"no shim":                      {reason: "RunContainerError", message: `failed to create containerd task: failed to start shim: exec: "containerd-shim": executable file not found in $PATH`},
		"runc, a folder of the node":   {reason: "CreateContainerError", message: `runc create failed: unable to start container process: error during container init: error mounting "/x" to rootfs: no such file or directory`},
		"kubelet, a missing ConfigMap": {reason: "CreateContainerConfigError", message: `configmap "app" not found`, referred: true},
	} {
		d := Diagnose(corev1.ContainerStatus{Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: tc.reason, Message: tc.message}}})
		if d.Missing != tc.missing || d.Unreachable != tc.unreachable || d.MissingReference != tc.referred {
			t.Errorf("%s: missing %v, unreachable %v, reference %v", name, d.Missing, d.Unreachable, d.MissingReference)
		}
	}
}
