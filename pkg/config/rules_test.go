package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
)

const hex = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestRepository(t *testing.T) {
	for image, want := range map[string]string{
		"nginx":                                 "docker.io/library/nginx",
		"nginx:1.27":                            "docker.io/library/nginx",
		"nginx@sha256:" + hex:                   "docker.io/library/nginx",
		"nginx:1.27@sha256:" + hex:              "docker.io/library/nginx",
		"library/nginx":                         "docker.io/library/nginx",
		"docker.io/nginx":                       "docker.io/library/nginx",
		"docker.io/library/nginx:1":             "docker.io/library/nginx",
		"index.docker.io/nginx":                 "docker.io/library/nginx",
		"index.docker.io/team/nginx":            "docker.io/team/nginx",
		"team/nginx:1":                          "docker.io/team/nginx",
		"team/a/b":                              "docker.io/team/a/b",
		"registry.example/nginx":                "registry.example/nginx",
		"registry.example/team/nginx:1":         "registry.example/team/nginx",
		"registry.example:5000/nginx":           "registry.example:5000/nginx",
		"registry.example:5000/nginx:1":         "registry.example:5000/nginx",
		"registry.example:5000/a@sha256:" + hex: "registry.example:5000/a",
		"registry:5000/nginx":                   "registry:5000/nginx",
		"localhost/nginx":                       "localhost/nginx",
		"localhost:5000/nginx:1":                "localhost:5000/nginx",
		"REGISTRY/nginx":                        "REGISTRY/nginx", // not in lower case, so not a repository on docker.io
		"[::1]:5000/nginx":                      "[::1]:5000/nginx",
		"10.0.0.1/nginx":                        "10.0.0.1/nginx",
		hex:                                     "",
		"sha256:" + hex:                         "",
		"sha256:" + hex[1:]:                     "docker.io/library/sha256",
		"":                                      "docker.io/library/",
		":":                                     "docker.io/library/",
		"@":                                     "docker.io/library/",
		"/":                                     "docker.io//",
		"//":                                    "docker.io///",
		"a/":                                    "docker.io/a/",
		".":                                     "docker.io/library/.",
		"./a":                                   "./a",
		"../a":                                  "../a",
		"a:b:c":                                 "docker.io/library/a:b",
		"a@b@c":                                 "docker.io/library/a",
		"a@b/c:d":                               "docker.io/library/a",
		"registry.example":                      "docker.io/library/registry.example",
		"registry.example:5000":                 "docker.io/library/registry.example",
	} {
		if got := repository(image); got != want {
			t.Errorf("%q: got %q, want %q", image, got, want)
		}
	}
}

func TestImages_Allows(t *testing.T) {
	for name, tc := range map[string]struct {
		allowed []string
		image   string
		want    bool
	}{
		"all":                             {nil, "anything", true},
		"docker.io":                       {[]string{"docker.io"}, "nginx", true},
		"docker.io, another":              {[]string{"docker.io"}, "registry.example/nginx", false},
		"library":                         {[]string{"docker.io/library"}, "nginx:1.27", true},
		"library, in full":                {[]string{"docker.io/library"}, "docker.io/nginx", true},
		"library is not all of docker.io": {[]string{"docker.io/library"}, "team/nginx", false},
		"a team's folder is no image":     {[]string{"docker.io/nginx"}, "docker.io/nginx", false},
		"one image":                       {[]string{"registry.example/team/nginx"}, "registry.example/team/nginx:1", true},
		"one image, another":              {[]string{"registry.example/team/nginx"}, "registry.example/team/nginx2", false},
		"a slash at the end":              {[]string{"registry.example/team/"}, "registry.example/team/nginx", true},
		"a folder that begins alike":      {[]string{"registry.example/team"}, "registry.example/team2/nginx", false},
		"a registry that begins alike":    {[]string{"registry.example"}, "registry.example.evil.com/nginx", false},
		"a registry in the path":          {[]string{"registry.example"}, "evil.com/registry.example/nginx", false},
		"a registry after @":              {[]string{"registry.example"}, "evil.com/a@registry.example/nginx", false},
		"another port":                    {[]string{"registry.example"}, "registry.example:5000/nginx", false},
		"that port":                       {[]string{"registry.example:5000"}, "registry.example:5000/nginx:1", true},
		"a host in upper case":            {[]string{"docker.io"}, "EVIL/nginx", false},
		"the second":                      {[]string{"a.example", "b.example"}, "b.example/nginx", true},
		"the ID of an image":              {[]string{"docker.io"}, "sha256:" + hex, false},
		"the ID of an image, bare":        {[]string{"docker.io"}, hex, false},
		"with a digest":                   {[]string{"docker.io/library"}, "nginx@sha256:" + hex, true},
	} {
		if got := (Images{Allowed: tc.allowed}).Allows(tc.image); got != tc.want {
			t.Errorf("%s: %q from %v: got %v", name, tc.image, tc.allowed, got)
		}
	}
}

func TestMoving(t *testing.T) {
	for image, want := range map[string]bool{
		"nginx": true, "nginx:latest": true, "registry.example:5000/nginx": true, "registry.example:5000/nginx:latest": true,
		"nginx:1.27": false, "registry.example:5000/nginx:1": false, "nginx:latest-alpine": false,
		"nginx@sha256:" + hex: false, "nginx:latest@sha256:" + hex: false, "sha256:" + hex: false,
	} {
		if got := Moving(image); got != want {
			t.Errorf("%q: got %v", image, got)
		}
	}
}

// Kubernetes pulls an image with the tag latest always, with a digest, too.
func TestPlatform_RefusesImagesThatAreNotPulled(t *testing.T) {
	p := Platform{Images: Images{Pull: PullAlways}}
	for image, want := range map[string]bool{
		"nginx": false, "nginx:latest": false, "nginx:latest@sha256:" + hex: false,
		"nginx:1.27": true, "nginx@sha256:" + hex: true, hex: true,
	} {
		if got := p.RefusesImage(Image{Name: image}); (got != nil) != want {
			t.Errorf("%q: got %v", image, got)
		}
	}
}

func TestSameImage(t *testing.T) {
	const digest, other = "@sha256:" + hex, "@sha256:1" + hex
	for name, tc := range map[string]struct {
		a, b string
		want bool
	}{
		"as it is written":           {"nginx:1.27", "nginx:1.27", true},
		"in full":                    {"nginx:1.27", "docker.io/library/nginx:1.27", true},
		"without a tag":              {"nginx", "docker.io/library/nginx:latest", true},
		"another tag":                {"nginx:1.27", "docker.io/library/nginx:1.27.3", false},
		"another repository":         {"nginx:1.27", "registry.example/nginx:1.27", false},
		"a port is no tag":           {"registry.example:5000/web", "registry.example:5000/web:latest", true},
		"the digest that was pulled": {"nginx:1.27" + digest, "docker.io/library/nginx" + digest, true},
		"another digest":             {"nginx" + digest, "docker.io/library/nginx" + other, false},
		"a digest and a tag":         {"nginx:1.27", "docker.io/library/nginx" + digest, false},
		"the ID of an image":         {"nginx:1.27", "sha256:" + hex, false},
		"nothing":                    {"nginx:1.27", "", false},
	} {
		if got := SameImage(tc.a, tc.b); got != tc.want {
			t.Errorf("%s: %q and %q: got %v", name, tc.a, tc.b, got)
		}
		if got := SameImage(tc.b, tc.a); got != tc.want {
			t.Errorf("%s: %q and %q: got %v", name, tc.b, tc.a, got)
		}
	}
}

func TestPlatform_AllowsGateway(t *testing.T) {
	p := Platform{Gateways: []Gateway{
		{Namespace: "gateways", Name: "public"},
		{Namespace: "gateways", Name: "internal", From: []string{"team-*", "ops"}},
	}}
	for name, tc := range map[string]struct {
		from, namespace, gateway string
		want                     bool
	}{
		"its own, by default":            {"team-a", "", "any", true},
		"its own, by name":               {"team-a", "team-a", "any", true},
		"for all":                        {"other", "gateways", "public", true},
		"for some, by pattern":           {"team-a", "gateways", "internal", true},
		"for some, by name":              {"ops", "gateways", "internal", true},
		"for others":                     {"other", "gateways", "internal", false},
		"for one that ends in a pattern": {"my-team-a", "gateways", "internal", false},
		"of that name elsewhere":         {"team-a", "team-b", "public", false},
		"of another name":                {"team-a", "gateways", "private", false},
	} {
		if got := p.AllowsGateway(tc.from, tc.namespace, tc.gateway); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if (Platform{}).AllowsGateway("a", "b", "g") {
		t.Error("without entries a Gateway of another namespace is allowed")
	}
}

func TestPlatform_AllowsHost(t *testing.T) {
	p := Platform{Hosts: []Hosts{
		{Namespaces: []string{"team-a"}, Hosts: []string{"*.a.example.com", "shop.example.com"}},
		{Namespaces: []string{"team-*"}, Hosts: []string{"teams.example.com"}},
		{Namespaces: []string{"ops"}, Hosts: []string{"*"}},
	}}
	for name, tc := range map[string]struct {
		namespace, host string
		want            bool
	}{
		"by name":                           {"team-a", "shop.example.com", true},
		"below":                             {"team-a", "x.a.example.com", true},
		"far below":                         {"team-a", "y.x.a.example.com", true},
		"the wildcard itself":               {"team-a", "*.a.example.com", true},
		"a wildcard below":                  {"team-a", "*.x.a.example.com", true},
		"a wider wildcard":                  {"team-a", "*.example.com", false},
		"the top":                           {"team-a", "a.example.com", false},
		"one that ends alike":               {"team-a", "evila.example.com", false},
		"a wildcard of a name":              {"team-a", "*.shop.example.com", false},
		"another":                           {"team-a", "www.example.com", false},
		"by a pattern of namespaces":        {"team-b", "teams.example.com", true},
		"another namespace's":               {"team-b", "shop.example.com", false},
		"all":                               {"ops", "anything.org", true},
		"all, with a wildcard":              {"ops", "*.anything.org", true},
		"a namespace of no entry":           {"other", "shop.example.com", false},
		"a namespace that ends in an entry": {"my-ops", "anything.org", false},
	} {
		if got := p.AllowsHost(tc.namespace, tc.host); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if !(Platform{}).AllowsHost("a", "b.c") {
		t.Error("without entries a host is not allowed")
	}
}

func TestPlatform_AllowsAnnotationAndPriorityClass(t *testing.T) {
	some := Platform{Annotations: []string{"cert-manager.io/issuer", "example.com/*", "plain"}, PriorityClasses: []string{"batch-*"}}
	every := Platform{Annotations: []string{"*"}, PriorityClasses: []string{"*"}}
	for key, want := range map[string]bool{
		"cert-manager.io/issuer": true, "cert-manager.io/cluster-issuer": false, "example.com/anything": true,
		"a.example.com/anything": false, "plain": true, "plainer": false, "example.com": false,
	} {
		if got := some.AllowsAnnotation(key); got != want {
			t.Errorf("annotation %s: got %v, want %v", key, got, want)
		}
		if !every.AllowsAnnotation(key) || Default().AllowsAnnotation(key) {
			t.Errorf("annotation %s: * must allow it, and the default must not", key)
		}
	}
	allowed := func(p Platform, class string) bool {
		return len(p.RefusesPod(PodSettings{PriorityClass: Text{Value: class}})) == 0
	}
	for class, want := range map[string]bool{"batch-low": true, "batch-": true, "batch": false, "high": false} {
		if got := allowed(some, class); got != want {
			t.Errorf("priority class %s: got %v, want %v", class, got, want)
		}
		if !allowed(every, class) || allowed(Default(), class) {
			t.Errorf("priority class %s: * must allow it, and the default must not", class)
		}
	}
}

func TestPlatform_Enabled(t *testing.T) {
	for name, tc := range map[string]struct {
		gates   map[Feature]bool
		want    bool
		changed []string
	}{
		"unset":     {nil, true, nil},
		"on":        {map[Feature]bool{ReadYourWrites: true}, true, nil},
		"off":       {map[Feature]bool{ReadYourWrites: false}, false, []string{"ReadYourWrites=false"}},
		"two, off":  {map[Feature]bool{ReadYourWrites: false, GatewayAPI: false}, false, []string{"GatewayAPI=false", "ReadYourWrites=false"}},
		"other off": {map[Feature]bool{PodMonitors: false}, true, []string{"PodMonitors=false"}},
	} {
		p := Platform{FeatureGates: tc.gates}
		if got := p.Enabled(ReadYourWrites); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
		if got := p.Changed(); !slices.Equal(got, tc.changed) {
			t.Errorf("%s: changed are %v, want %v", name, got, tc.changed)
		}
	}
	if (Platform{}).Enabled("Flying") {
		t.Error("a feature that there is not is on")
	}
}

func TestPlatform_RefusesExpose(t *testing.T) {
	p := Platform{
		Gateways: []Gateway{{Namespace: "gateways", Name: "public"}, {Namespace: "gateways", Name: "ops", From: []string{"ops"}}},
		Hosts: []Hosts{
			{Namespaces: []string{"team-*"}, Hosts: []string{"*.teams.example.com"}},
			{Namespaces: []string{"many"}, Hosts: []string{"g.b", "f.b", "e.b", "d.b", "c.b", "b.b", "a.b", "a.b"}},
		},
	}
	expose := func(gateway string, hosts ...string) *common.Expose {
		ns, name, _ := strings.Cut(gateway, "/")
		e := &common.Expose{Type: common.ExposeIngress, Hosts: hosts}
		if gateway != "" {
			e.Type, e.Gateway = common.ExposeGateway, &common.ExposeGatewayOptions{ParentRef: common.GatewayReference{Namespace: ns, Name: name}}
		}
		return e
	}
	for name, tc := range map[string]struct {
		namespace string
		expose    *common.Expose
		want      []string
	}{
		"nothing":           {"team-a", nil, nil},
		"allowed":           {"team-a", expose("gateways/public", "x.teams.example.com"), nil},
		"another Gateway":   {"team-a", expose("gateways/ops", "x.teams.example.com"), []string{`spec.expose.gateway.parentRef: Forbidden: the platform configuration does not let namespace "team-a" use Gateway gateways/ops: take one of the namespace's own, or gateways/public`}},
		"another host":      {"team-a", expose("", "x.teams.example.com", "evil.com"), []string{`spec.expose.hosts[1]: Forbidden: the platform configuration does not let namespace "team-a" claim "evil.com": it may claim *.teams.example.com`}},
		"no host at all":    {"other", expose("", "x.y"), []string{`spec.expose.hosts[0]: Forbidden: the platform configuration does not let namespace "other" claim "x.y": it may claim none`}},
		"of many":           {"many", expose("", "x.y"), []string{`spec.expose.hosts[0]: Forbidden: the platform configuration does not let namespace "many" claim "x.y": it may claim a.b, b.b, c.b, d.b, e.b, 2 more`}},
		"all of it, sorted": {"team-a", expose("x/y", "a.b", "c.d"), []string{"spec.expose.gateway.parentRef: ", "spec.expose.hosts[0]: ", "spec.expose.hosts[1]: "}},
	} {
		t.Run(name, func(t *testing.T) {
			errs := p.RefusesExpose(tc.namespace, tc.expose, field.NewPath("spec", "expose"))
			var got []string
			for i, e := range errs {
				got = append(got, e.Error())
				if i < len(tc.want) && strings.HasSuffix(tc.want[i], ": ") {
					got[i] = got[i][:min(len(got[i]), len(tc.want[i]))]
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
