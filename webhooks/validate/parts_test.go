package validate

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
)

func TestPod(t *testing.T) {
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	nodes := func(expressions ...string) string {
		terms := make([]string, len(expressions))
		for i, e := range expressions {
			terms[i] = "{matchExpressions: [" + e + "]}"
		}
		return "affinity: {nodeAffinity: {" + required + ": {nodeSelectorTerms: [" + strings.Join(terms, ", ") + "]}}}"
	}
	pods := func(kind, selector string) string {
		return "affinity: {" + kind + ": {" + required + ": [{topologyKey: zone, labelSelector: {" + selector + "}}]}}"
	}
	expressions := "affinity.nodeAffinity." + required + ".nodeSelectorTerms[0].matchExpressions"
	for name, tc := range map[string]struct {
		pod  string
		want string // the beginning of the error; "" for none
	}{
		"nothing":                                {"", ""},
		"a label that exists and not":            {nodes("{key: a, operator: Exists}, {key: a, operator: DoesNotExist}"), expressions + `: Invalid value: "a": no node can meet all requirements on this label: change or remove one of them`},
		"a value of a label that does not exist": {nodes("{key: a, operator: DoesNotExist}, {key: a, operator: In, values: [x]}"), expressions},
		"different keys":                         {nodes("{key: a, operator: Exists}, {key: b, operator: DoesNotExist}"), ""},
		"alternatives":                           {nodes("{key: a, operator: Exists}", "{key: a, operator: DoesNotExist}"), ""},
		"no common value":                        {nodes("{key: a, operator: In, values: [x, y]}, {key: a, operator: In, values: [z]}"), expressions},
		"a common value":                         {nodes("{key: a, operator: In, values: [x, y]}, {key: a, operator: In, values: [y, z]}"), ""},
		"all values excluded":                    {nodes("{key: a, operator: In, values: [x]}, {key: a, operator: NotIn, values: [x, y]}"), expressions},
		"some values excluded":                   {nodes("{key: a, operator: In, values: [x, z]}, {key: a, operator: NotIn, values: [x, y]}"), ""},
		"excluded, and must exist":               {nodes("{key: a, operator: Exists}, {key: a, operator: NotIn, values: [x]}"), ""},
		"excluded, and must not exist":           {nodes("{key: a, operator: DoesNotExist}, {key: a, operator: NotIn, values: [x]}"), ""},
		"more than 5 and less than 3":            {nodes("{key: a, operator: Gt, values: ['5']}, {key: a, operator: Lt, values: ['3']}"), expressions},
		"nothing between 3 and 4":                {nodes("{key: a, operator: Gt, values: ['3']}, {key: a, operator: Lt, values: ['4']}"), expressions},
		"a number between 3 and 5":               {nodes("{key: a, operator: Gt, values: ['3']}, {key: a, operator: Lt, values: ['5']}"), ""},
		"less than 0":                            {nodes("{key: a, operator: Lt, values: ['0']}"), expressions},
		"less than 1":                            {nodes("{key: a, operator: Lt, values: ['1']}"), ""},
		"a listed number of the range":           {nodes("{key: a, operator: Gt, values: ['3']}, {key: a, operator: In, values: ['3', '04']}"), ""},
		"no listed number of the range":          {nodes("{key: a, operator: Gt, values: ['3']}, {key: a, operator: In, values: ['3', 'x', '']}"), expressions},
		"the node selector against all terms": {
			"nodeSelector: {a: x}, " + nodes("{key: a, operator: In, values: [y]}", "{key: a, operator: DoesNotExist}"),
			"affinity.nodeAffinity." + required + ".nodeSelectorTerms: Forbidden: no node can have the labels of spec.pod.nodeSelector",
		},
		"the node selector against a term": {"nodeSelector: {a: x}, " + nodes("{key: a, operator: In, values: [y]}", "{key: b, operator: Exists}"), ""},
		"pods with and without a label":    {pods("podAffinity", "matchLabels: {a: x}, matchExpressions: [{key: a, operator: DoesNotExist}]"), "affinity.podAffinity." + required + `[0].labelSelector: Invalid value: "a": no pod can meet`},
		"pods with two values":             {pods("podAntiAffinity", "matchLabels: {a: x}, matchExpressions: [{key: a, operator: In, values: [y]}]"), "affinity.podAntiAffinity." + required + `[0].labelSelector: Invalid value: "a"`},
		"pods with one value, twice":       {pods("podAntiAffinity", "matchLabels: {a: x}, matchExpressions: [{key: a, operator: In, values: [x]}, {key: a, operator: Exists}]"), ""},
		"a preference that is never met":   {"affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a, labelSelector: {matchLabels: {a: x}, matchExpressions: [{key: a, operator: DoesNotExist}]}}}]}}", ""},
		"a spread over no pods":            {"topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}}]", `topologySpreadConstraints[0].labelSelector: Invalid value: "a"`},
		"a spread over pods of the object": {"topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]", ""},

		"two keys in one file":          {"volumes: [{name: v, configMap: {name: c, items: [{key: a, path: x/y}, {key: b, path: x//y}]}}]", `volumes[0].configMap.items[1].path: Duplicate value: "x/y"`},
		"two keys of a Secret":          {"volumes: [{name: v, secret: {secretName: c, items: [{key: a, path: x}, {key: b, path: x}]}}]", `volumes[0].secret.items[1].path: Duplicate value: "x"`},
		"one key twice":                 {"volumes: [{name: v, configMap: {name: c, items: [{key: a, path: x}, {key: a, path: x}, {key: a, path: y}]}}]", ""},
		"keys that may not exist":       {"volumes: [{name: v, configMap: {name: c, optional: true, items: [{key: a, path: x}, {key: b, path: x}, {key: c, path: x/y}]}}]", ""},
		"two fields in one file":        {"volumes: [{name: v, downwardAPI: {items: [{path: x, fieldRef: {fieldPath: metadata.name}}, {path: x, fieldRef: {fieldPath: metadata.uid}}]}}]", `volumes[0].downwardAPI.items[1].path: Duplicate value: "x"`},
		"a file that is a folder":       {"volumes: [{name: v, configMap: {name: c, items: [{key: a, path: x/y/z}, {key: b, path: x/y}]}}]", `volumes[0].configMap.items[0].path: Invalid value: "x/y/z": "x/y" is a file of this volume and cannot be a folder: use another path`},
		"an absolute path":              {"volumes: [{name: v, configMap: {name: c, items: [{key: a, path: /x/y}, {key: b, path: ../x}]}}]", ""}, // the schema rejects it
		"files in one folder":           {"volumes: [{name: v, configMap: {name: c, items: [{key: a, path: x/y}, {key: b, path: x/z}, {key: c, path: xy}]}}]", ""},
		"a folder of another source":    {"volumes: [{name: v, projected: {sources: [{configMap: {name: c, items: [{key: a, path: x}]}}, {downwardAPI: {items: [{path: x/y, fieldRef: {fieldPath: metadata.name}}]}}]}}]", `volumes[0].projected.sources[1].downwardAPI.items[0].path: Invalid value: "x/y"`},
		"a folder of an optional one":   {"volumes: [{name: v, projected: {sources: [{configMap: {name: c, optional: true, items: [{key: a, path: x}]}}, {secret: {name: c, items: [{key: a, path: x/y}]}}]}}]", ""},
		"files of several volumes":      {"volumes: [{name: v, configMap: {name: c, items: [{key: a, path: x}]}}, {name: w, configMap: {name: c, items: [{key: b, path: x}]}}]", ""},
		"below an empty volume":         {"volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /a, readOnly: true}, {name: w, mountPath: /a/b}]", `volumeMounts[0].mountPath: Invalid value: "/a": /a/b is mounted below this path, and cannot be created in a read-only volume: use another mountPath, or a volume that is writable`},
		"below the operator's":          {"volumes: [{name: v, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /var, readOnly: true}]", `volumeMounts[0].mountPath: Invalid value: "/var": /var/cache is mounted below this path`},
		"below a writable volume":       {"volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /a}, {name: w, mountPath: /a/b}]", ""},
		"below one that is written":     {"volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /a, readOnly: true}, {name: w, mountPath: /a/b}, {name: v, mountPath: /c}]", ""},
		"next to a read-only volume":    {"volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /a, readOnly: true}, {name: w, mountPath: /ab}]", ""},
		"below files of the API":        {"volumes: [{name: v, configMap: {name: c, items: [{key: a, path: a}]}}, {name: w, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /a}, {name: w, mountPath: /a/b}]", ""},
		"below a claim or an image":     {"volumes: [{name: v, persistentVolumeClaim: {claimName: c, readOnly: true}}, {name: i, image: {reference: i}}, {name: w, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /a}, {name: w, mountPath: /a/b}, {name: i, mountPath: /i}, {name: w, mountPath: /i/b}]", ""},
		"files instead of /etc":         {"volumes: [{name: v, configMap: {name: c, items: [{key: hosts, path: hosts}]}}], volumeMounts: [{name: v, mountPath: /etc}]", `volumeMounts[0].mountPath: Invalid value: "/etc": /etc/hostname is mounted below this path`},
		"unknown files instead of /etc": {"volumes: [{name: v, configMap: {name: c}}], volumeMounts: [{name: v, mountPath: /etc}]", ""},
		"files below /etc":              {"volumes: [{name: v, configMap: {name: c, items: [{key: a, path: a}]}}], volumeMounts: [{name: v, mountPath: /etc/shop}]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &common.Pod{}
			if err := yaml.UnmarshalStrict([]byte("{"+tc.pod+"}"), p); err != nil {
				t.Fatal(err)
			}
			errs := Pod(p, field.NewPath("spec", "pod"), "/var/cache")
			switch {
			case tc.want == "" && len(errs) > 0:
				t.Errorf("got %v, want none", errs)
			case tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "spec.pod."+tc.want)):
				t.Errorf("got  %v\nwant %s", errs, tc.want)
			}
		})
	}
}
