package resources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/platform-operator/platform-operator/apis/common"
)

func TestSecurityContexts_MeetTheirProfile(t *testing.T) {
	own := map[string]SecurityDefaults{
		"restricted kind":         {Profile: common.SecurityRestricted, User: 101, ReadOnlyRootFilesystem: true},
		"restricted kind, no ids": {Profile: common.SecurityRestricted},
		"baseline kind":           {Profile: common.SecurityBaseline},
	}
	said := map[string]*common.Security{
		"nothing":    nil,
		"restricted": {Profile: common.SecurityRestricted},
		"baseline":   {Profile: common.SecurityBaseline}, // rejected by restricted kinds
		"ids":        {RunAsUser: new(int64(1)), RunAsGroup: new(int64(0)), FSGroup: new(int64(0)), ReadOnlyRootFilesystem: new(false)},
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for kind, d := range own {
		for who, s := range said {
			t.Run(kind+", "+who, func(t *testing.T) {
				level := api.LevelBaseline
				if d.Profile == common.SecurityRestricted || s != nil && s.Profile == common.SecurityRestricted {
					level = api.LevelRestricted
				}
				p := pod(t, s, d, everything)
				r := policy.AggregateCheckResults(evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &p.ObjectMeta, &p.Spec))
				if !r.Allowed {
					t.Errorf("%s refuses: %s", level, r.ForbiddenDetail())
				}
			})
		}
	}
}

func TestSecurityContexts(t *testing.T) {
	const seccomp = `"seccompProfile":{"type":"RuntimeDefault"}`
	restricted := SecurityDefaults{Profile: common.SecurityRestricted, User: 101, ReadOnlyRootFilesystem: true}
	baseline := SecurityDefaults{Profile: common.SecurityBaseline}
	for name, tc := range map[string]struct {
		said           *common.Security
		own            SecurityDefaults
		pod, container string
	}{
		"restricted": {
			nil, restricted, `{"runAsUser":101,"runAsGroup":101,"runAsNonRoot":true,` + seccomp + `}`,
			`{"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false}`,
		},
		"baseline": {nil, baseline, `{` + seccomp + `}`, `{"privileged":false}`},
		"restricted by choice, as the image's user": {
			&common.Security{Profile: common.SecurityRestricted}, baseline, `{"runAsNonRoot":true,` + seccomp + `}`,
			`{"capabilities":{"drop":["ALL"]},"allowPrivilegeEscalation":false}`,
		},
		"another user": {
			&common.Security{RunAsUser: new(int64(7))}, restricted, `{"runAsUser":7,"runAsGroup":7,"runAsNonRoot":true,` + seccomp + `}`,
			`{"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false}`,
		},
		"all ids": {
			&common.Security{RunAsUser: new(int64(7)), RunAsGroup: new(int64(0)), FSGroup: new(int64(9)), ReadOnlyRootFilesystem: new(true)}, baseline,
			`{"runAsUser":7,"runAsGroup":0,"fsGroup":9,` + seccomp + `}`, `{"privileged":false,"readOnlyRootFilesystem":true}`,
		},
		"writable all the same": {
			&common.Security{ReadOnlyRootFilesystem: new(false)}, restricted, `{"runAsUser":101,"runAsGroup":101,"runAsNonRoot":true,` + seccomp + `}`,
			`{"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":false,"allowPrivilegeEscalation":false}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, c := SecurityContexts(tc.said, tc.own)
			for _, part := range []struct {
				got  any
				want string
			}{{p, tc.pod}, {c, tc.container}} {
				if diff := cmp.Diff(part.want, jsonOf(t, part.got)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}
