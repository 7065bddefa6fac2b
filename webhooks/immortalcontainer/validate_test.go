package immortalcontainer

import (
	"testing"

	"sigs.k8s.io/yaml"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
)

func TestValidate(t *testing.T) {
	for what, tc := range map[string]struct {
		spec string
		want []string
	}{
		"legacy sample":         {`{image: "nginx:latest"}`, nil},
		"probes by number":      {`{image: nginx, probes: {liveness: {tcpSocket: {port: 80}}}}`, nil},
		"a probe by a name":     {`{image: nginx, probes: {liveness: {tcpSocket: {port: http}}}}`, []string{"spec.probes.liveness.tcpSocket.port"}},
		"wrong, all of it told": {`{probes: {startup: {httpGet: {port: a}}}, pod: {volumes: [{name: a, projected: {sources: [{configMap: {name: c, items: [{key: k, path: p}, {key: l, path: p}]}}]}}]}}`, []string{"spec.probes.startup.httpGet.port", "spec.pod.volumes[0].projected.sources[0].configMap.items[1].path"}},
	} {
		t.Run(what, func(t *testing.T) {
			i := &immortalv1alpha1.ImmortalContainer{}
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &i.Spec); err != nil {
				t.Fatal(err)
			}
			errs := Validate(i, config.Default())
			if len(errs) != len(tc.want) {
				t.Fatalf("got %v, want errors of %v", errs, tc.want)
			}
			for k, e := range errs {
				if e.Field != tc.want[k] {
					t.Errorf("got %v, want an error of %s", e, tc.want[k])
				}
			}
		})
	}
}
