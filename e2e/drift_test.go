//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// deploymentKinds are the kinds whose pods a Deployment runs, by the name of an
// object of each.
var deploymentKinds = map[string]kind{"web": webServerKind, "app": demoApplicationKind, "cache": memcachedKind}

// image returns an image that the kind can run, with a tag that both repositories
// have.
func (k kind) image(tag string) string {
	if k == memcachedKind {
		return "memcached:" + tag
	}
	return "nginx:" + tag
}

// TestDeployment_IsUnpaused is needed because a paused Deployment does not roll out
// any change, not even a rollback. Users pause the object instead.
func TestDeployment_IsUnpaused(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	for name, k := range deploymentKinds {
		s.apply(k.manifest(name, `{image: "`+k.image("latest")+`", `+k.replicas+`: 1}`))
	}
	for name, k := range deploymentKinds {
		s.serves(k.resource + "/" + name)
		s.kubectl("rollout", "pause", "deployment/"+name)
	}
	for name, k := range deploymentKinds {
		s.patch(k.resource+"/"+name, `{"pod":{"labels":{"changed":"yes"}}}`)
	}
	for name, k := range deploymentKinds {
		s.serves(k.resource + "/" + name)
		s.prints("1", "get", "replicasets", "-l", "changed=yes,"+strings.ToLower(k.Kind)+"_cr="+name, "-o", "jsonpath={.items[*].status.readyReplicas}")
	}
}

// TestDeployment_DropsWhatOthersAddToItsPods is needed because an added container
// that does not start would fail every revision, and a tenant of the namespace must
// not see the processes of the host.
func TestDeployment_DropsWhatOthersAddToItsPods(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	for name, k := range deploymentKinds {
		s.apply(k.manifest(name, `{image: "`+k.image("latest")+`", `+k.replicas+`: 1}`))
	}
	const pods = `jsonpath={.spec.template.spec.containers[*].name} {.spec.template.spec.initContainers[*].name} {.spec.template.spec.volumes[*].name} {.spec.template.spec.hostPID} {.spec.template.spec.nodeSelector}`
	want := map[string]string{}
	for name, k := range deploymentKinds {
		s.serves(k.resource + "/" + name)
		want[name] = s.kubectl("get", "deployment", name, "-o", pods)
	}
	for name := range deploymentKinds {
		s.kubectl("patch", "deployment", name, "-p", `{"spec":{"template":{"spec":{"hostPID":true,"nodeSelector":{"example.com/none":"yes"},
			"containers":[{"name":"side","image":"nginx:crash"}],"initContainers":[{"name":"first","image":"nginx:crash"}],"volumes":[{"name":"more","emptyDir":{}}]}}}}`)
	}
	for name, k := range deploymentKinds {
		s.prints(want[name], "get", "deployment", name, "-o", pods)
		s.serves(k.resource + "/" + name)
	}
}
