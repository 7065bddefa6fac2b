package webserver

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
)

func TestValidate(t *testing.T) {
	nodePort := func(p int32) func(*webserverv1.WebServer) {
		return func(w *webserverv1.WebServer) { w.Spec.Service = &webserverv1.ServiceSpec{NodePort: &p} }
	}
	inline := func(text string) func(*webserverv1.WebServer) {
		return func(w *webserverv1.WebServer) { w.Spec.Config = &webserverv1.ConfigSource{Inline: text} }
	}
	outOfRange := "spec.service.nodePort: Invalid value: "

	for name, tc := range map[string]struct {
		change func(*webserverv1.WebServer)
		want   []string // prefixes of the errors
	}{
		"legacy sample":           {func(*webserverv1.WebServer) {}, nil},
		"service without a port":  {func(w *webserverv1.WebServer) { w.Spec.Service = &webserverv1.ServiceSpec{} }, nil},
		"first node port":         {nodePort(30000), nil},
		"last node port":          {nodePort(32767), nil},
		"node port below":         {nodePort(29999), []string{outOfRange + "29999: must be between 30000 and 32767"}},
		"node port above":         {nodePort(32768), []string{outOfRange + "32768: must be between 30000 and 32767"}},
		"configuration":           {inline("location / { return 204; }"), nil},
		"configuration elsewhere": {inline(""), nil},
		"configuration in Lua":    {inline("content_by_lua_block { ngx.say('} it is') }"), nil},
		"configuration cut off":   {inline("location / {"), []string{`spec.config.inline: Invalid value: "location / {": nginx cannot read it: line 1: unexpected end, expecting "}"`}},
		"long text": {
			inline(strings.Repeat("€", 100)),
			[]string{`spec.config.inline: Invalid value: "` + strings.Repeat("€", 20) + `…": nginx cannot read it: line 1: `},
		},
		"everything at once": {
			func(w *webserverv1.WebServer) {
				nodePort(1)(w)
				inline("}")(w)
			},
			[]string{
				"spec.service.nodePort: Invalid",
				"spec.config.inline: Invalid",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &webserverv1.WebServer{
				ObjectMeta: metav1.ObjectMeta{Name: "webserver-sample"},
				Spec:       webserverv1.WebServerSpec{Image: "nginx:1.23.1", Replicas: new(int32(3))},
			}
			tc.change(w)
			before := w.DeepCopy()
			errs := Validate(w, config.Default())
			if len(errs) != len(tc.want) {
				t.Fatalf("got %d errors, want %d: %v", len(errs), len(tc.want), errs)
			}
			for i, e := range errs {
				if !strings.HasPrefix(e.Error(), tc.want[i]) {
					t.Errorf("got  %s\nwant %s…", e, tc.want[i])
				}
			}
			if diff := cmp.Diff(before, w); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
		})
	}
}

func TestValidate_NodePortRange(t *testing.T) {
	platform := config.Default()
	platform.NodePortRange = config.PortRange{From: 20000, To: 20010}
	for port, want := range map[int32]int{20000: 0, 20010: 0, 30010: 1} {
		w := &webserverv1.WebServer{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       webserverv1.WebServerSpec{Image: "nginx", Service: &webserverv1.ServiceSpec{NodePort: &port}},
		}
		if got := Validate(w, platform); len(got) != want {
			t.Errorf("%d: got %v, want %d errors", port, got, want)
		}
	}
}
