package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/apis/common"
)

func TestPods_AllowsKeys(t *testing.T) {
	usual := Default().Pods
	listed := Pods{Annotations: []string{"sidecar.istio.io/inject", "k8s.v1.cni.cncf.io/*"}, Labels: []string{"aadpodidbinding"}, UnlistedKeys: KeysAllow}
	closed := Pods{Annotations: []string{"example.com/*"}, Labels: []string{"team"}, UnlistedKeys: KeysRefuse}
	open := Pods{Annotations: []string{"*"}, Labels: []string{"*"}, UnlistedKeys: KeysRefuse}
	for key, want := range map[string]struct{ usual, listed, closed bool }{
		"team":                                           {true, true, false},
		"example.com/note":                               {true, true, true},
		"app.kubernetes.io/name":                         {true, true, false},
		"prometheus.io/scrape":                           {true, true, false},
		"cluster-autoscaler.kubernetes.io/a":             {true, true, false},
		"notistio.io/inject":                             {true, true, false},
		"istio.io.example.com/inject":                    {true, true, false},
		"sidecar.istio.io/inject":                        {false, true, false},
		"sidecar.istio.io/userVolume":                    {false, false, false},
		"Sidecar.Istio.io/userVolume":                    {false, false, false},
		"istio.io/rev":                                   {false, false, false},
		"k8s.v1.cni.cncf.io/networks":                    {false, true, false},
		"cni.projectcalico.org/ipAddrsNoIpam":            {false, false, false},
		"iam.amazonaws.com/role":                         {false, false, false},
		"aadpodidbinding":                                {false, false, false},
		"azure.workload.identity/use":                    {false, false, false},
		"io.katacontainers.config.runtime.x":             {false, false, false},
		"io.kubernetes.cri-o.Devices":                    {false, false, false},
		"devices.nri.io/container.x":                     {false, false, false},
		"cdi.k8s.io/x":                                   {false, false, false},
		"co.elastic.logs/enabled":                        {false, false, false},
		"ad.datadoghq.com/x.logs":                        {false, false, false},
		"config.linkerd.io/skip-inbound-ports":           {false, false, false},
		"karpenter.sh/do-not-disrupt":                    {false, false, false},
		"cluster-autoscaler.kubernetes.io/safe-to-evict": {true, true, false},
		"Karpenter.SH/Do-Not-Disrupt":                    {false, false, false},

		"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": {true, true, false},

		"seccomp-profile.kubernetes.cri-o.io":      {false, false, false},
		"seccomp-profile.kubernetes.cri-o.io/pod":  {false, false, false},
		"kueue.x-k8s.io/queue-name":                {false, false, false},
		"sidecar.opentelemetry.io/inject":          {false, false, false},
		"operator.1password.io/inject":             {false, false, false},
		"vault.security.banzaicloud.io/vault-addr": {false, false, false},
		"gke-gcsfuse/volumes":                      {false, false, false},
		"ipam.antrea.io/ippools":                   {false, false, false},
		"k8s.aliyun.com/eci-ram-role-name":         {false, false, false},
		"rdt.resources.beta.kubernetes.io/pod":     {false, false, false},
	} {
		if got := usual.AllowsAnnotation(key); got != want.usual {
			t.Errorf("%s by default: got %t", key, got)
		}
		if got := listed.AllowsAnnotation(key); got != want.listed {
			t.Errorf("%s with a list: got %t", key, got)
		}
		if got := closed.AllowsAnnotation(key); got != want.closed {
			t.Errorf("%s if others are refused: got %t", key, got)
		}
		if !open.AllowsAnnotation(key) || !open.AllowsLabel(key) {
			t.Errorf("%s is not allowed by *", key)
		}
	}
	if !listed.AllowsLabel("aadpodidbinding") || usual.AllowsLabel("aadpodidbinding") || !closed.AllowsLabel("team") || closed.AllowsLabel("app") {
		t.Error("the list of labels does not apply to labels")
	}
}

func TestPods_AllowsTolerations(t *testing.T) {
	some := Pods{Tolerations: []string{"dedicated", "example.com/*"}}
	for key, want := range map[string]bool{"dedicated": true, "example.com/gpu": true, "node-role.kubernetes.io/control-plane": false, "": false} {
		if got := some.AllowsToleration(key); got != want {
			t.Errorf("%q: got %t", key, got)
		}
		if !Default().Pods.AllowsToleration(key) {
			t.Errorf("%q is refused by default", key)
		}
	}
}

func TestPods_AllowsProfiles(t *testing.T) {
	for least, want := range map[common.SecurityProfile]bool{common.SecurityBaseline: true, common.SecurityRestricted: false} {
		p := Pods{LeastProfile: least}
		if p.AllowsProfile(common.SecurityBaseline) != want || !p.AllowsProfile(common.SecurityRestricted) {
			t.Errorf("%s", least)
		}
	}
}

// Users have to know which keys are restricted.
func TestPods_RestrictedKeysAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/platform-configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(raw), "## Keys of pods")
	for _, keys := range [][]string{restrictedDomains, restrictedNames} {
		for _, key := range keys {
			if !strings.Contains(page, "`"+key+"`") {
				t.Errorf("%s is not documented", key)
			}
		}
	}
}

// The admission policies repeat the keys.
func TestRestrictedKeys_AreThoseOfTheAdmissionPolicy(t *testing.T) {
	raw, err := os.ReadFile("../../config/policy/policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`' \+\s+'`).ReplaceAllString(string(raw), "")
	if !strings.Contains(lines, "'"+RestrictedKeys.String()+"'") {
		t.Errorf("config/policy/policies.yaml does not contain %s", RestrictedKeys)
	}
}
