package demoapplication

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
)

type port = demoapplicationv1.Port

func TestValidate(t *testing.T) {
	type change = func(*demoapplicationv1.DemoApplication)
	name := func(n string) change { return func(a *demoapplicationv1.DemoApplication) { a.Name = n } }
	image := func(i string) change { return func(a *demoapplicationv1.DemoApplication) { a.Spec.Image = i } }
	replica := func(n int32) change {
		return func(a *demoapplicationv1.DemoApplication) { a.Spec.Replica = &n }
	}
	ports := func(ps ...port) change {
		return func(a *demoapplicationv1.DemoApplication) { a.Spec.Ports = ps }
	}
	number := func(n int32) *intstr.IntOrString { return new(intstr.FromInt32(n)) }
	word := func(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }

	for name, tc := range map[string]struct {
		change change
		want   []string // how each fault begins
	}{
		"the article's":            {func(*demoapplicationv1.DemoApplication) {}, nil},
		"name of 63":               {name(strings.Repeat("a", 63)), nil},
		"name of 64":               {name(strings.Repeat("a", 64)), []string{"metadata.name: Too long: may not be more than 63 "}},
		"name long and wrong":      {name(strings.Repeat("A", 64)), []string{"metadata.name: Too long"}},
		"name with a digit first":  {name("1web"), []string{`metadata.name: Invalid value: "1web": a DNS-1035 label must`}},
		"name with a dot":          {name("a.b"), []string{`metadata.name: Invalid value: "a.b": a DNS-1035 label must`}},
		"no image":                 {image(""), []string{"spec.image: Required value"}},
		"image before a newline":   {image("nginx\n"), []string{`spec.image: Invalid value: "nginx\n"`}},
		"no replicas":              {replica(0), nil},
		"less than none":           {replica(-1), []string{"spec.replica: Invalid value: -1: must be 0 or more"}},
		"the field of other kinds": {func(a *demoapplicationv1.DemoApplication) { a.Spec.Replicas = new(int32(2)) }, []string{"spec.replicas: Forbidden: this kind's field is called replica: use spec.replica"}},

		"no ports":                   {ports(), nil},
		"one port, no name":          {ports(port{Port: 80}), nil},
		"two ports, one of no name":  {ports(port{Port: 80}, port{Name: "b", Port: 81}), []string{"spec.ports[0].name: Required value: each of several ports must have a name"}},
		"two ports, no names":        {ports(port{Port: 80}, port{Port: 81}), []string{"spec.ports[0].name: Required", "spec.ports[1].name: Required"}},
		"two ports, one name":        {ports(port{Name: "a", Port: 80}, port{Name: "a", Port: 81}), []string{`spec.ports[1].name: Duplicate value: "a"`}},
		"name in upper case":         {ports(port{Name: "HTTP", Port: 80}), []string{`spec.ports[0].name: Invalid value: "HTTP"`}},
		"one port, twice":            {ports(port{Name: "a", Port: 80}, port{Name: "b", Port: 80, Protocol: corev1.ProtocolTCP}), []string{`spec.ports[1].port: Duplicate value: "80/TCP"`}},
		"one port, two protocols":    {ports(port{Name: "a", Port: 53}, port{Name: "b", Port: 53, Protocol: corev1.ProtocolUDP}), nil},
		"port 0":                     {ports(port{}), []string{"spec.ports[0].port: Invalid value: 0: must be between 1 and 65535"}},
		"port 65536":                 {ports(port{Port: 65536}), []string{"spec.ports[0].port: Invalid value: 65536"}},
		"target port 0 is none":      {ports(port{Port: 80, TargetPort: number(0)}), nil},
		"target port 65536":          {ports(port{Port: 80, TargetPort: number(65536)}), []string{"spec.ports[0].targetPort: Invalid value: 65536: must be between 0 and 65535, or a name"}},
		"two ports lead to one":      {ports(port{Name: "a", Port: 80, TargetPort: number(8080)}, port{Name: "b", Port: 81, TargetPort: number(8080)}), nil},
		"target port by name":        {ports(port{Port: 80, TargetPort: word("http")}), nil},
		"one name for two":           {ports(port{Name: "a", Port: 80, TargetPort: word("x")}, port{Name: "b", Port: 81, TargetPort: word("x")}), []string{`spec.ports[1].targetPort: Duplicate value: "x"`}},
		"name without a letter":      {ports(port{Port: 80, TargetPort: word("80")}), []string{`spec.ports[0].targetPort: Invalid value: "80": must contain at least one letter`}},
		"name of 16":                 {ports(port{Port: 80, TargetPort: word(strings.Repeat("a", 16))}), []string{`spec.ports[0].targetPort: Invalid value`}},
		"first node port":            {ports(port{Port: 80, NodePort: new(int32(30000))}), nil},
		"last node port":             {ports(port{Port: 80, NodePort: new(int32(32767))}), nil},
		"node port below":            {ports(port{Port: 80, NodePort: new(int32(29999))}), []string{"spec.ports[0].nodePort: Invalid value: 29999: must be between 30000 and 32767"}},
		"node port above":            {ports(port{Port: 80, NodePort: new(int32(32768))}), []string{"spec.ports[0].nodePort: Invalid value: 32768"}},
		"one node port, twice":       {ports(port{Name: "a", Port: 80, NodePort: new(int32(30002))}, port{Name: "b", Port: 81, NodePort: new(int32(30002))}), []string{`spec.ports[1].nodePort: Duplicate value: "30002/TCP"`}},
		"one node port, 2 protocols": {ports(port{Name: "a", Port: 53, NodePort: new(int32(30053))}, port{Name: "b", Port: 53, Protocol: corev1.ProtocolUDP, NodePort: new(int32(30053))}), nil},
		"everything at once": {
			func(a *demoapplicationv1.DemoApplication) {
				name("Web")(a)
				image("")(a)
				replica(-1)(a)
				ports(port{Port: 0, NodePort: new(int32(1))}, port{Name: "b", Port: 1, TargetPort: word("1")})(a)
			},
			[]string{
				"metadata.name: Invalid", "spec.image: Required", "spec.replica: Invalid", "spec.ports[0].port: Invalid", "spec.ports[0].name: Required",
				"spec.ports[0].nodePort: Invalid", "spec.ports[1].targetPort: Invalid",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &demoapplicationv1.DemoApplication{
				ObjectMeta: metav1.ObjectMeta{Name: "nginx-demo"},
				Spec: demoapplicationv1.DemoApplicationSpec{
					Image: "nginx:latest", Replica: new(int32(2)),
					Ports: []port{{Port: 80, TargetPort: number(80), NodePort: new(int32(30002))}},
				},
			}
			tc.change(a)
			before := a.DeepCopy()
			errs := Validate(a, config.Default())
			if len(errs) != len(tc.want) {
				t.Fatalf("got %d faults, want %d: %v", len(errs), len(tc.want), errs)
			}
			for i, e := range errs {
				if !strings.HasPrefix(e.Error(), tc.want[i]) {
					t.Errorf("got  %s\nwant %s…", e, tc.want[i])
				}
			}
			if diff := cmp.Diff(before, a); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
		})
	}
}

func TestNodePortsOfThisCluster(t *testing.T) {
	platform := config.Default()
	platform.NodePortRange = config.PortRange{From: 20000, To: 20010}
	for number, want := range map[int32]int{20000: 0, 20010: 0, 30002: 1} {
		a := &demoapplicationv1.DemoApplication{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       demoapplicationv1.DemoApplicationSpec{Image: "nginx", Ports: []port{{Port: 80, NodePort: &number}}},
		}
		if got := Validate(a, platform); len(got) != want {
			t.Errorf("%d: got %v, want %d faults", number, got, want)
		}
	}
}
