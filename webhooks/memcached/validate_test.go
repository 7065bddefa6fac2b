package memcached

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
)

func TestValidate(t *testing.T) {
	type cache = cachev1alpha1.Memcached
	name := func(n string) func(*cache) { return func(m *cache) { m.Name = n } }
	size := func(n int32) func(*cache) { return func(m *cache) { m.Spec.Size = n } }
	image := func(i string) func(*cache) { return func(m *cache) { m.Spec.Image = i } }
	connections := func(n int32) func(*cache) { return func(m *cache) { m.Spec.MaxConnections = &n } }
	threads := func(n int32) func(*cache) { return func(m *cache) { m.Spec.Threads = &n } }
	memory := func(q string) func(*cache) {
		return func(m *cache) { m.Spec.Memory = &cachev1alpha1.MemorySpec{Size: new(resource.MustParse(q))} }
	}
	annotated := func(n int) func(*cache) {
		all := map[string]common.AnnotationValue{}
		for i := range n {
			all[strconv.Itoa(i)] = common.AnnotationValue(strings.Repeat("x", 8192))
		}
		return func(m *cache) {
			m.Spec.Pod, m.Spec.Service = &common.Pod{Annotations: all}, &cachev1alpha1.ServiceSpec{Annotations: all}
		}
	}
	const (
		bounds = "spec.memory.size: Invalid value: %s: must be between 2Mi and 1Ti"
		whole  = "spec.memory.size: Invalid value: %s: must be whole MiB"
	)
	of := func(format, q string) string { return strings.ReplaceAll(format, "%s", `"`+q+`"`) }

	for name, tc := range map[string]struct {
		change func(*cache)
		want   []string // how each fault begins
	}{
		"the seed's":              {func(*cache) {}, nil},
		"the seed's second":       {size(4), nil},
		"name of 63":              {name(strings.Repeat("a", 63)), nil},
		"name of 64":              {name(strings.Repeat("a", 64)), []string{"metadata.name: Too long: may not be more than 63 "}},
		"name with a digit first": {name("1a"), []string{`metadata.name: Invalid value: "1a": a DNS-1035 label must`}},
		"name with a dot":         {name("a.b"), []string{`metadata.name: Invalid value: "a.b": a DNS-1035 label must`}},
		"no node":                 {size(0), nil},
		"the most nodes":          {size(64), nil},
		"less than none":          {size(-1), []string{"spec.size: Invalid value: -1: must be between 0 and 64"}},
		"too many nodes":          {size(65), []string{"spec.size: Invalid value: 65: must be between 0 and 64"}},
		"an image":                {image("memcached:1.6.38"), nil},
		"image after a space":     {image(" memcached"), []string{`spec.image: Invalid value: " memcached"`}},
		"empty memory":            {func(m *cache) { m.Spec.Memory = &cachev1alpha1.MemorySpec{} }, nil},
		"least memory":            {memory("2Mi"), nil},
		"most memory":             {memory("1Ti"), nil},
		"memory in bytes":         {memory("67108864"), nil},
		"memory in KiB":           {memory("65536Ki"), nil},
		"memory that is too low":  {memory("1Mi"), []string{of(bounds, "1Mi")}},
		"memory that is too high": {memory("1025Gi"), []string{of(bounds, "1025Gi")}},
		"negative memory":         {memory("-64Mi"), []string{of(bounds, "-64Mi")}},
		"memory in MB":            {memory("64M"), []string{of(whole, "64M")}},
		"half a MiB":              {memory("2560Ki"), []string{of(whole, "2560Ki")}},
		"less than a byte":        {memory("67108864500m"), []string{of(whole, "67108864500m")}},
		"no memory":               {memory("0"), []string{of(bounds, "0")}},
		"more than there is":      {memory("100E"), []string{of(bounds, "100E"), of(whole, "100E")}},
		"one connection":          {connections(1), nil},
		"most connections":        {connections(65536), nil},
		"no connection":           {connections(0), []string{"spec.maxConnections: Invalid value: 0: must be between 1 and 65536"}},
		"too many connections":    {connections(65537), []string{"spec.maxConnections: Invalid value: 65537"}},
		"one thread":              {threads(1), nil},
		"no thread":               {threads(0), []string{"spec.threads: Invalid value: 0: must be between 1 and 64"}},
		"too many threads":        {threads(65), []string{"spec.threads: Invalid value: 65"}},
		"annotations":             {annotated(1), nil},
		"too many annotations": {annotated(32), []string{
			"spec.pod.annotations: Too long: may not be more than 163840", "spec.service.annotations: Too long: may not be more than 163840",
		}},
		"everything at once": {
			func(m *cache) {
				name("A")(m)
				size(-1)(m)
				image("a ")(m)
				memory("1M")(m)
				connections(0)(m)
				threads(0)(m)
			},
			[]string{"metadata.name: Invalid", "spec.size", "spec.image", of(bounds, "1M"), of(whole, "1M"), "spec.maxConnections", "spec.threads"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &cache{ObjectMeta: metav1.ObjectMeta{Name: "example-memcached"}, Spec: cachev1alpha1.MemcachedSpec{Size: 3}}
			tc.change(m)
			before := m.DeepCopy()
			errs := Validate(m)
			if len(errs) != len(tc.want) {
				t.Fatalf("got %d faults, want %d: %v", len(errs), len(tc.want), errs)
			}
			for i, e := range errs {
				if !strings.HasPrefix(e.Error(), tc.want[i]) {
					t.Errorf("got  %s\nwant %s…", e, tc.want[i])
				}
			}
			if diff := cmp.Diff(before, m); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
		})
	}
}
